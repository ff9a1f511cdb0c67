"""
How it works, in pictures
=========================

This page explains the sampler without formulas (:doc:`/learn/09_for_statisticians` has them).
Five ideas are enough: the *posterior over partitions*, the *cavity*, the *site*, the *sweep* and
the *move*.
"""

# %%
# The problem
# -----------
#
# A *partition* divides the rows into groups. Twelve points can be partitioned in more than four
# million ways. Most partitions are poor, a few are good, and often several are nearly as good as
# the best. A method that returns only the best one hides this. cavity draws partitions at random,
# each as often as its probability given the data: the *posterior*. Where most draws agree, the
# result is certain.
#
# Everything on this page is computed with a few lines of NumPy, which do for a small example what
# the package does for real data. Points have two columns; a cluster is a round cloud of known
# width around an unknown center.

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(4)
centers = np.array([[0.0, 0.0], [3.2, 0.4], [1.4, 2.9]])
truth = np.repeat([0, 1, 2], 12)
X = centers[truth] + 0.75 * rng.standard_normal((36, 2))
WIDTH, SPREAD = 0.75**2, 9.0  # variance within a cluster, and of the centers


def center_given(points):
    """Return mean and variance of the normal distribution of a cluster's center."""
    precision = 1 / SPREAD + len(points) / WIDTH
    return points.sum(axis=0) / WIDTH / precision, 1 / precision


def score(x, points):
    """Return the density of x in a cluster with these points, its center integrated out."""
    mean, variance = center_given(points)
    total = WIDTH + variance
    return np.exp(-((x - mean) ** 2).sum() / (2 * total)) / (2 * np.pi * total)


# %%
# The cavity: all but one
# -----------------------
#
# To decide which cluster a point belongs to, remove it first. The distribution of a cluster's
# center given its *other* members is called the cavity: the hole that the point leaves. If the
# point stayed in, every cluster would be biased towards its own members, and labels would rarely
# change.
#
# The plot has one dimension. Gray ticks are the members of a cluster, and the red tick is the
# point in question. The curves show the distribution of the cluster's center with and without that
# point.

line = np.array([-0.9, -0.3, -0.1, 0.2, 0.5, 2.6])
mine = 5
grid = np.linspace(-2, 4, 400)


def normal(t, mean, variance):
    return np.exp(-((t - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def product(points):
    """Return the density of a center: normal prior times Student-t likelihoods."""
    density = normal(grid, 0, 4)
    for y in points:
        density = density * (1 + (grid - y) ** 2 / (4 * 0.25)) ** -2.5
    return density / (density.sum() * (grid[1] - grid[0]))


cavity = product(np.delete(line, mine))
everything = product(line)

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.plot(grid, everything, color="C0", label="with the red point")
ax.fill_between(grid, cavity, color="0.75", alpha=0.6, label="the cavity: without the red point")
ax.plot(np.delete(line, mine), np.zeros(5), "|", ms=18, mew=2, color="0.3")
ax.plot(line[mine], 0, "|", ms=18, mew=3, color="C3")
ax.set(yticks=[], xlabel="where the center of the cluster may be", title="A cavity")
ax.legend()

# %%
# The site: one point's contribution
# ----------------------------------
#
# The ratio of the two curves is the contribution of the point, called its *site*. For Gaussian
# clusters, sites are simple and exact: adding a point adds to a sum, and removing it subtracts.
# For heavy tails they are not: the exact contribution (red) cannot be described by a few numbers.
#
# *Expectation propagation* replaces it by a normal curve that, multiplied by the cavity, has the
# correct mean and width. A point in the middle of the cluster makes the center more certain. The
# far point does not: it makes the center a little *less* certain and barely moves it. This is the
# effect of heavy tails.

width = grid[1] - grid[0]


def moments(density):
    mean = (density * grid).sum() * width
    return mean, (density * (grid - mean) ** 2).sum() * width


def likelihood(y):
    return (1 + (grid - y) ** 2 / (4 * 0.25)) ** -2.5


def site(i):
    """Return the tilted density, its mean and variance, and the precision that the point adds."""
    without = product(np.delete(line, i))
    tilted = without * likelihood(line[i])
    tilted /= tilted.sum() * width
    mean, variance = moments(tilted)
    return tilted, mean, variance, 1 / variance - 1 / moments(without)[1]


print(f"precision that the point at {line[3]} adds: {site(3)[3]:.2f}")
print(f"precision that the far point at {line[mine]} adds: {site(mine)[3]:.2f}")

tilted, mean, variance, _ = site(mine)
raw = likelihood(line[mine])
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.fill_between(grid, cavity, color="0.75", alpha=0.6, label="cavity")
ax.plot(grid, raw * cavity.max() * 0.6, color="C3", label="likelihood of the far point")
ax.plot(grid, tilted, color="C0", lw=3, alpha=0.5, label="both, exactly")
ax.plot(grid, normal(grid, mean, variance), "k--", lw=1, label="normal, same mean and width")
ax.set(yticks=[], xlabel="where the center of the cluster may be", title="A site")
ax.legend(fontsize=8)

# %%
# For Student-t and Gaussian clusters the package samples exactly by default and does not need this
# approximation. It uses it for very long series and for likelihoods of your own, and measures the
# error.
#
# The sweep: one label at a time
# ------------------------------
#
# A *sweep* visits all points in random order. Each point is removed, each cluster is scored by how
# well its cavity predicts the point, times a weight that grows with its size (an empty cluster has
# a small weight too), and the point is assigned to one of them at random with these odds.


def sweep(labels, n_clusters=5, concentration=1.0):
    """One sweep of the toy sampler, in place."""
    for i in rng.permutation(len(X)):
        labels[i] = -1
        odds = np.array(
            [
                ((labels == k).sum() + concentration / n_clusters) * score(X[i], X[labels == k])
                for k in range(n_clusters)
            ]
        )
        labels[i] = rng.choice(n_clusters, p=odds / odds.sum())
    return labels


labels = rng.integers(0, 5, len(X))
fig, axes = plt.subplots(1, 4, figsize=(10, 2.9), layout="constrained", sharex=True, sharey=True)
done = 0
for ax, after in zip(axes, (0, 1, 3, 20), strict=True):
    while done < after:
        sweep(labels)
        done += 1
    ax.scatter(*X.T, c=labels, cmap="tab10", vmin=0, vmax=9, s=26)
    ax.set_title(f"after {after} sweep{'s' * (after > 1)}" if after else "at random")
    ax.set(xticks=[], yticks=[])

# %%
# From here on, every sweep is one draw. Counting how often two points share a cluster gives the
# similarity matrix: dark blocks are clusters, stripes of another shade are uncertain points.

draws = np.array([sweep(labels).copy() for _ in range(300)])
together = (draws[:, :, None] == draws[:, None, :]).mean(axis=0)
order = np.argsort(truth, kind="stable")
fig, ax = plt.subplots(figsize=(4, 3.4), layout="constrained")
image = ax.imshow(together[np.ix_(order, order)], cmap="Blues", vmin=0, vmax=1)
fig.colorbar(image, label="probability of sharing a cluster")
ax.set(xticks=[], yticks=[], title="Similarity of the 36 points")

# %%
# The move: many labels at once
# -----------------------------
#
# Changing one label at a time can get stuck. Suppose two groups share one cluster, and a third
# group is divided between two clusters. Every single step out of this state is improbable and soon
# undone, so a chain may stay for a long time and look converged. *Moves* change whole clusters at
# once: they split one, merge two, or do both, called an *exchange*. A proposal is accepted or
# rejected by the ratio of the partitions' probabilities (and of the proposal probabilities), so
# moves make chains faster without changing the result.
#
# Here are 450 points in such a state, and the two halves of the exchange:


def log_joint(z):
    """Log probability of a partition of the toy data, sizes and points."""
    total = 0.0
    for k in np.unique(z):
        points = X[z == k]
        total += sum(np.log(score(points[j], points[:j])) for j in range(len(points)))
        total += sum(np.log(j + 0.2) for j in range(len(points)))
    return total


truth = np.repeat([0, 1, 2], 150)
centers = np.array([[-8.0, 0.0], [3.2, 0.4], [1.4, 2.9]])
X = centers[truth] + 0.75 * rng.standard_normal((450, 2))
trap = np.where(truth == 2, 1, truth)  # two groups in one cluster ...
trap[(truth == 0) & (X[:, 1] > 0)] = 2  # ... and one group in two
merged = np.where(trap == 2, 0, trap)
steps = {"the trap": trap, "two become one ...": merged, "... and one becomes two": truth}
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained", sharex=True, sharey=True)
for ax, (title, z) in zip(axes, steps.items(), strict=True):
    ax.scatter(*X.T, c=z, cmap="tab10", vmin=0, vmax=9, s=6)
    ax.set(xticks=[], yticks=[], title=f"{title}\nlog probability {log_joint(z):.0f}")

# %%
# Single steps take this long to get there. With more points or columns, they take longer than
# anyone waits:

z, trace = trap.copy(), [log_joint(trap)]
for _ in range(30):
    trace.append(log_joint(sweep(z, n_clusters=3)))
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(trace, label="one point at a time")
ax.axhline(log_joint(truth), color="C3", ls="--", label="after one exchange")
ax.set(xlabel="sweeps", ylabel="log probability")
ax.legend()

# %%
# These are the ideas. The package adds clusters of any elliptical shape with heavy tails, learned
# priors, missing values, categories, time series, and convergence checks.
