"""
How it works, in pictures
=========================

No formulas here; :doc:`/learn/09_for_statisticians` has them. Five ideas are enough to know what
the program does: the *posterior over partitions*, the *cavity*, the *site*, the *sweep* and the
*move*.
"""

# %%
# The question
# ------------
#
# A *partition* says who is with whom. Twelve points can be divided into groups in more than four
# million ways. Most are absurd, a few are good, and often several are nearly as good as the best.
# A program that returns the best one hides that. This one draws partitions at random, each as
# often as it deserves given the data: the *posterior*. What most draws agree on is sure; where
# they differ is doubt.
#
# Everything on this page is computed here, by a few lines of NumPy that do for a toy what the
# package does for real data. Points have two columns; a cluster is a round cloud of known width
# around a centre that nobody knows.

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(4)
centres = np.array([[0.0, 0.0], [3.2, 0.4], [1.4, 2.9]])
truth = np.repeat([0, 1, 2], 12)
X = centres[truth] + 0.75 * rng.standard_normal((36, 2))
WIDTH, SPREAD = 0.75**2, 9.0  # variance within a cluster; of the centres around the origin


def knowledge(points):
    """What the points of a cluster tell of its centre: mean and variance of a normal."""
    precision = 1 / SPREAD + len(points) / WIDTH
    return points.sum(axis=0) / WIDTH / precision, 1 / precision


def score(x, points):
    """Density of x in a cluster of which the points are known, its centre averaged over."""
    mean, variance = knowledge(points)
    total = WIDTH + variance
    return np.exp(-((x - mean) ** 2).sum() / (2 * total)) / (2 * np.pi * total)


# %%
# The cavity: everything but this one
# -----------------------------------
#
# To ask where a point belongs, take it out first. What the *other* members of a cluster say about
# the cluster is called the cavity: the hole that the point has left. Had we left it in, every
# cluster would speak for its own members, and nobody would ever move.
#
# The picture has one column. Grey ticks are the members of a cluster, the red one is the point in
# question. The curves say what is known of the cluster's centre, with the point and without it.

line = np.array([-0.9, -0.3, -0.1, 0.2, 0.5, 2.6])
mine = 5
grid = np.linspace(-2, 4, 400)


def normal(t, mean, variance):
    return np.exp(-((t - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def product(points):
    """Knowledge of a centre from heavy-tailed points: normal prior times Student-t terms."""
    density = normal(grid, 0, 4)
    for y in points:
        density = density * (1 + (grid - y) ** 2 / (4 * 0.25)) ** -2.5
    return density / (density.sum() * (grid[1] - grid[0]))


cavity = product(np.delete(line, mine))
everything = product(line)

fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
ax.plot(grid, everything, color="C0", label="with the red point")
ax.fill_between(grid, cavity, color="0.75", alpha=0.6, label="the cavity: without it")
ax.plot(np.delete(line, mine), np.zeros(5), "|", ms=18, mew=2, color="0.3")
ax.plot(line[mine], 0, "|", ms=18, mew=3, color="C3")
ax.set(yticks=[], xlabel="where the centre of the cluster may be", title="A cavity")
ax.legend()

# %%
# The site: what one point adds
# -----------------------------
#
# Divide the one curve by the other, and what is left is the point's own contribution. That is its
# *site*. If clusters are Gaussian, sites are simple and exact: adding a point adds to a sum,
# taking it out subtracts. With heavy tails they are not: the point's true contribution (red) is a
# curve that no short list of numbers describes.
#
# *Expectation propagation* replaces it by a simple one: the normal curve that, together with the
# cavity, has the same mean and width as the truth. A point in the middle of the cluster makes its
# centre better known. The far point does not: seeing it makes the centre a little *less* certain,
# and hardly moves it. It is heard, but it does not drag the cluster along. That is what heavy
# tails are for.

width = grid[1] - grid[0]


def moments(density):
    mean = (density * grid).sum() * width
    return mean, (density * (grid - mean) ** 2).sum() * width


def likelihood(y):
    return (1 + (grid - y) ** 2 / (4 * 0.25)) ** -2.5


def site(i):
    """Mean and variance of cavity and point together, and the precision that the point adds."""
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
ax.plot(grid, raw * cavity.max() * 0.6, color="C3", label="what the far point says")
ax.plot(grid, tilted, color="C0", lw=3, alpha=0.5, label="both together, exactly")
ax.plot(grid, normal(grid, mean, variance), "k--", lw=1, label="normal, same mean and width")
ax.set(yticks=[], xlabel="where the centre of the cluster may be", title="A site")
ax.legend(fontsize=8)

# %%
# For Student-t and Gaussian clusters the package does not need this approximation and samples
# exactly, by default. For very long series and for likelihoods of your own it does, and measures
# how far it is off.
#
# The sweep: everybody is asked once
# ----------------------------------
#
# One *sweep* visits all points in random order. Each is taken out, each cluster is asked how well
# the point fits its cavity, larger clusters get a somewhat larger say, an empty one gets a small
# say of its own, and the point is put into one of them at random by these odds.


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
# Every sweep from then on is one draw. Count over many of them how often two points are together,
# and you have the picture that answers most questions: blocks are clusters, stripes of another
# shade are points in doubt.

draws = np.array([sweep(labels).copy() for _ in range(300)])
together = (draws[:, :, None] == draws[:, None, :]).mean(axis=0)
order = np.argsort(truth, kind="stable")
fig, ax = plt.subplots(figsize=(4, 3.4), layout="constrained")
image = ax.imshow(together[np.ix_(order, order)], cmap="Blues", vmin=0, vmax=1)
fig.colorbar(image, label="how often together")
ax.set(xticks=[], yticks=[], title="Similarity of the 36 points")

# %%
# The move: many at once
# ----------------------
#
# One point at a time can be a trap. Say two groups have been given to one cluster, and a third
# group is shared by two clusters. Every single step out of that is small, and most are undone by
# the next one, so that a chain may stay for long and look settled. *Moves* change whole clusters
# at once: split one, merge two, or do both in one go, the *exchange*. The proposal is accepted or
# refused by one rule, the ratio of the two partitions' probabilities (and of the ways to propose
# them), so that moves make the chain quicker and never wrong.
#
# Here are 450 points in such a trap, and the two halves of the exchange:


def log_joint(z):
    """Log probability of a partition of the toy data, sizes and points."""
    total = 0.0
    for k in np.unique(z):
        points = X[z == k]
        total += sum(np.log(score(points[j], points[:j])) for j in range(len(points)))
        total += sum(np.log(j + 0.2) for j in range(len(points)))
    return total


truth = np.repeat([0, 1, 2], 150)
centres = np.array([[-8.0, 0.0], [3.2, 0.4], [1.4, 2.9]])
X = centres[truth] + 0.75 * rng.standard_normal((450, 2))
trap = np.where(truth == 2, 1, truth)  # two groups in one cluster ...
trap[(truth == 0) & (X[:, 1] > 0)] = 2  # ... and one group in two
merged = np.where(trap == 2, 0, trap)
steps = {"the trap": trap, "two become one ...": merged, "... and one becomes two": truth}
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), layout="constrained", sharex=True, sharey=True)
for ax, (title, z) in zip(axes, steps.items(), strict=True):
    ax.scatter(*X.T, c=z, cmap="tab10", vmin=0, vmax=9, s=6)
    ax.set(xticks=[], yticks=[], title=f"{title}\nlog probability {log_joint(z):.0f}")

# %%
# And this is how long single steps take to get there. With more points, or more columns, they
# take longer than anybody waits:

z, trace = trap.copy(), [log_joint(trap)]
for _ in range(30):
    trace.append(log_joint(sweep(z, n_clusters=3)))
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(trace, label="one point at a time")
ax.axhline(log_joint(truth), color="C3", ls="--", label="where one exchange leads")
ax.set(xlabel="sweeps", ylabel="log probability")
ax.legend()

# %%
# That is all there is. The package adds what makes it useful: clusters of any shape with heavy
# tails, priors that are learned, gaps, categories, time series, chains that are compared with
# each other, and an answer in words.
