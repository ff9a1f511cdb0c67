"""Settings that must hold before NumPy is loaded, and the long tests that run on demand.

One thread per test process; Ctrl-C is heard.
"""

import os
import signal

import pytest

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# A shell's background jobs ignore SIGINT, and so would the runs that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Each takes five seconds or more on an empty cache of kernels, and what it claims is claimed by a
# shorter test as well: another prior, another collapse, another size. Where a line ends without
# brackets, all variants are meant.
LONG = (
    "cli/test_cli_runs.py::test_a_run_that_came_to_its_limit_can_go_on",
    "estimators/test_mixtures.py::test_every_collapse_runs[StudentTMixture-blocked]",
    "estimators/test_mixtures.py::test_every_prior_runs[GaussianMixture-dirichlet]",
    "estimators/test_mixtures.py::test_one_absurd_value_spoils_nothing_but_its_row[10000000000.0]",
    "estimators/test_mixtures.py::test_the_answer_is_not_the_last_draw",
    "estimators/test_mixtures.py::test_the_loss_is_the_user_s",
    "estimators/test_mixtures_known.py::test_a_few_known_labels_decide_what_the_rows_leave_open",
    "estimators/test_mixtures_known.py::test_known_labels_hold_in_every_draw[GaussianMixture]",
    "estimators/test_mixtures_noise.py::test_a_background_is_found_if_it_is_asked_for",
    "estimators/test_mixtures_sklearn.py::test_scikit_learn_check[GaussianMixture-",
    "estimators/test_mixtures_structures.py::test_leave_one_out_and_files[diag]",
    "estimators/test_run_length.py::test_series_and_their_running_moments",
    "series/test_series_mixture.py::test_clusters_are_recovered[ep]",
    "series/test_series_mixture.py::test_fixed_weights_and_given_start",
    "series/test_series_mixture.py::test_the_estimate_has_no_more_clusters_than_the_prior_allows",
    "estimators/test_table_rows.py::test_files_page_gaps_and_leave_one_out_with_noise",
    "exact/test_gaps.py::test_frequencies_of_partitions_with_gaps[student-t-moves]",
    "exact/test_gaps.py::test_gaps_do_matter",
    "exact/test_hyperpriors.py::test_distance_of_ep_from_exact",
    "exact/test_hyperpriors.py::test_frequencies_of_partitions_and_the_mean_scale[student-t-",
    "exact/test_leave_one_out.py::test_leave_one_out_is_exact[StudentTMixture-dp]",
    "exact/test_leave_one_out.py::test_the_predictive_density_is_exact[dp]",
    "exact/test_limits.py::test_the_scale_mixture_without_contamination_is_exact",
    "exact/test_negative_controls.py::test_scales_that_stay_behind_when_labels_move_fail",
    "exact/test_noise_moves.py::test_mistakes_are_found[foundings",
    "exact/test_noise_moves.py::test_mistakes_are_found[gather_around",
    "exact/test_noise_moves.py::test_outliers_that_are_alike_go_to_and_fro",
    "exact/test_structures.py::test_frequencies_of_partitions[diag-4.0-True-True]",
    "exact/test_tables.py::test_frequencies_of_partitions[student-t-categorical-poisson-",
    "exact/test_tables.py::test_overdispersed_counts_by_ep_are_close",
    "exact/test_uneven_tables.py::test_weights_are_repeated_rows[names0-collapsed-dp-True]",
    "fuzz/test_fuzz.py::test_a_sample_of_cases[gaussian]",
    "fuzz/test_fuzz.py::test_a_sample_of_cases[series]",
    "geweke/test_geweke.py::test_a_drifting_concentration_fails",
    "geweke/test_geweke.py::test_hyperparameters_given_wrong_covariances_fail[naive]",
    "geweke/test_geweke.py::test_joint_distribution[student-t-blocked-dp-each]",
    "hedonic/test_regression.py::test_draws_are_calibrated",
    "series/test_series_corrected.py::"
    "test_partitions_are_visited_with_their_probabilities[moves-dirichlet]",
    "series/test_series_corrected.py::test_the_distance_of_a_long_chain_is_noise",
    "series/test_series_geweke.py::test_a_wrong_sampler_is_noticed",
    "series/test_series_sampler.py::test_ep_is_near_the_exact_posterior",
    "series/test_series_signs.py::"
    "test_labels_and_signs_are_visited_with_their_probabilities[naive ",
    "report/test_report_html.py::test_extreme_posteriors_are_reported[all singletons]",
    "report/test_report_html.py::test_many_observations_and_clusters_are_cut_with_a_word",
    "reproduction/test_convergence.py::test_quick_run",
    "reproduction/test_experiment_series.py::test_quick_scaling",
    "mcmc/test_checkpoint.py::test_killed_at_random_times[automatic-3]",
    "mcmc/test_checkpoint.py::test_the_kill_test_can_fail[plain]",
    "distributed/test_scale_chains.py::test_a_mixture",
    "distributed/test_scale_dask.py::test_a_dask_dataframe_and_an_array",
    "distributed/test_scale_series.py::test_a_cluster_draws_what_threads_draw",
    "distributed/test_scale_tables.py::test_frequencies_of_partitions[names0-dp-options0]",
    "test_pages.py::test_the_examples_run[README.md]",
    "distributed/test_scale_tables.py::test_files_and_arrays_give_the_clusters_of_a_fit_in_memory",
    "mcmc/test_checkpoint.py::test_killed_at_random_times[automatic-2]",
    "exact/test_moves.py::test_all_moves_together[student-t",
    "exact/test_limits.py::test_distance_of_student_t_ep_from_exact",
    "exact/test_gaps.py::test_the_two_ways_to_integrate_agree",
    "estimators/test_mixtures_sklearn.py::test_scikit_learn_check[TableMixture-check_sample_weight",
    "test_pages.py::test_the_examples_run[docs/guide.md]",
    "test_pages.py::test_the_examples_run[docs/scaling.md]",
    "estimators/test_mixtures.py::test_every_prior_runs[StudentTMixture-dirichlet]",
    "series/test_series_mixture.py::test_alternation_is_offered",
    "exact/test_moves.py::"
    "test_sweeps_with_a_move_follow_the_enumerated_posterior[reshuffle-gaussian-collapsed-dp]",
    "exact/test_moves.py::"
    "test_sweeps_with_a_move_follow_the_enumerated_posterior[pinch-gaussian-collapsed-dp]",
    "exact/test_moves.py::"
    "test_sweeps_with_a_move_follow_the_enumerated_posterior[exchange-gaussian-collapsed-dp]",
    "exact/test_moves.py::"
    "test_sweeps_with_a_move_follow_the_enumerated_posterior[exchange-student-t-collapsed-finite]",
    "exact/test_moves.py::"
    "test_sweeps_with_a_move_follow_the_enumerated_posterior[pinch-student-t-collapsed-finite]",
    "exact/test_moves.py::"
    "test_sweeps_with_a_move_follow_the_enumerated_posterior[reshuffle-student-t-collapsed-finite]",
    "exact/test_moves.py::"
    "test_sweeps_with_a_move_follow_the_enumerated_posterior[split-merge-gaussian-collapsed-dp]",
    "exact/test_moves.py::"
    "test_sweeps_with_a_move_follow_the_enumerated_posterior[split-merge-student-t-collapsed-finite",
    "exact/test_uneven_tables.py::test_known_labels_stay[names0-collapsed-dp-True]",
    "exact/test_row_priors.py::test_noise[gaussian-collapsed-dp-True]",
    "exact/test_limits.py::test_distance_of_the_scale_mixture_from_exact[0.2-5.0-0.06]",
    "exact/test_limits.py::test_an_exact_sampler_is_at_no_distance[plane]",
    "exact/test_hyperpriors.py::test_the_hyperparameters_keep_their_priors[False-0.5]",
    "exact/test_leave_one_out.py::test_every_collapse_has_the_same_answer[naive]",
    "geweke/test_geweke.py::test_joint_distribution[gaussian-naive-pitman-yor]",
    "geweke/test_geweke.py::test_joint_distribution[student-t-naive-dirichlet-shared]",
    "geweke/test_geweke.py::test_hyperparameters_given_wrong_covariances_fail[collapsed]",
    "estimators/test_run_length.py::test_the_same_draws_whatever_the_threads",
    "series/test_series_mixture.py::test_open_number_of_clusters[dp]",
    "series/test_series_mixture.py::test_any_scale_that_is_promised_works[1e+50]",
    "series/test_series_mixture.py::test_any_scale_that_is_promised_works[1e-60]",
    "series/test_series_mixture.py::test_trends_keep_their_digits_far_from_zero[1000000.0]",
    "estimators/test_mixtures_bad_input.py::"
    "test_duplicates_of_one_point_are_one_cluster[StudentTMixture-7.0]",
    "estimators/test_mixtures_bad_input.py::test_fewer_rows_than_clusters[GaussianMixture]",
    "estimators/test_mixtures_gaps.py::test_leave_one_out_with_gaps[StudentTMixture]",
    "test_pages.py::test_the_examples_run[docs/index.md]",
    "distributed/test_scale_exact.py::test_frequencies_of_partitions[student-t-finite-1000-options1]",
    "report/test_report_html.py::test_extreme_posteriors_are_reported[one draw]",
    "cli/test_cli_runs.py::test_draws_are_safe_before_anything_is_drawn[error1]",
    "series/test_series_information.py::"
    "test_the_route_by_columns_equals_the_dense_evidence[options1]",
    "series/test_series_geweke.py::test_prior_and_chain_agree[naive alternating]",
    "oracle/test_oracle_student_t.py::test_projection_over_the_whole_grid[0.5]",
    "posterior/test_posterior_partition.py::test_thousand_by_thousand_within_ten_seconds",
    "mcmc/test_survival.py::test_series_whose_room_has_grown_resume_bit_for_bit[dp-ep]",
    "posterior/test_posterior_partition.py::test_equals_the_optimum_by_enumeration[vi-1.5]",
    "posterior/test_posterior_partition.py::test_equals_the_optimum_by_enumeration[vi-0.6]",
    "posterior/test_posterior_partition.py::test_equals_the_optimum_by_enumeration[binder-0.5]",
    "exact/test_enumeration.py::"
    "test_room_grows_and_the_number_of_clusters_is_right[student-t-naive]",
    "exact/test_enumeration.py::"
    "test_room_grows_and_the_number_of_clusters_is_right[student-t-blocked]",
    "series/test_series_information.py::test_both_routes_equal_the_dense_evidence[long-members2]",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Mark the long tests, before the markers that are asked for are looked at.

    Studies take minutes, on a machine with other work many; the limit of time is not for them.
    """
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(LONG):
            item.add_marker(pytest.mark.slow)
        if item.get_closest_marker("slow") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(7200))
