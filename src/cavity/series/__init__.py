"""`SeriesMixture` and everything that only series need.

================================ ==============================================================
file                             contents
================================ ==============================================================
``mixture.py``                   `SeriesMixture`: parameters, fit, methods of a fitted model
``data.py``                      wide and long tables as cells (series x time); seasons, differences
``time_axis.py``                 regular time axes of periods, timestamps or numbers
``initialization.py``            scales of the data and starting values, without a model
``problem.py``                   checked settings and data as the problem that chains sample
``state_space.py``               the model's equations; data, parameters, scratch of kernels
``kalman.py``                    filters of one series: likelihoods, EP sites, state draws
``batched_filter.py``            filters of eight series at once
``cluster_information.py``       a cluster's exact information about its factor
``likelihood.py``                the model in the framework's terms; signs of loadings
``exact.py``                     evidence of a cluster; the exact collapse
``corrected.py``                 the corrected collapse: cheap proposals accepted exactly
``collapses.py``                 the available collapses; distance of EP from exact
``parameters.py``                priors, conditional draws, populations, Student-t noise
``coefficients.py``              regression coefficients: drawn or integrated out
``common_factor.py``             the factor that all series share
``gibbs.py``                     draws of factors, states and parameters in a sweep
``moves.py``                     shifts and rescalings along slow directions
``metropolis.py``                adaptive Metropolis steps of shared parameters
``update.py``                    `SeriesUpdate`: a sweep without its labels
``results.py``                   bands, moments of trends, aligned factors, storage
``summary.py``                   trends, factors, tables, pictures, the report
``predictions.py``               forecasts, predicted values, predictive densities
``assign.py``                    clusters of new series
``append.py``                    later observations without a new fit
``shards.py``                    sharded fits, their data, files of results
``shard_pass.py``                one pass over a shard
``shard_sampler.py``             one chain over shards
================================ ==============================================================
"""
