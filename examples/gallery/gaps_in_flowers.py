"""
Classify flowers when half of the labels are missing
====================================================

**Question.** A table of iris flowers lacks 10% of the measurements and half of the species
names. What are the missing names?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier

from cavity import TableMixture
from cavity.datasets import load_iris_with_gaps

flowers, whole = load_iris_with_gaps(random_state=0)
m = TableMixture(n_clusters=3, n_warmup=200, n_draws=400, random_state=0).fit(flowers)
print(m.diagnostics().sentences[0])
unnamed = flowers["species"].isna()
guess = m.category_probabilities(flowers[unnamed], "species")

# %%
# **Answer.** Each flower gets a name with a probability. The probabilities are calibrated if names
# with a probability of 90% are right nine times in ten.

name, sure = guess.idxmax(axis=1), guess.max(axis=1)
right = name == whole.loc[unnamed, "species"]
print(
    f"{right.mean():.0%} of {len(name)} names are right. With a probability above 95%: "
    f"{right[sure > 0.95].mean():.0%} of {(sure > 0.95).sum()}."
)
print(guess[sure < 0.8].round(2).head(6).to_string())
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(np.sort(sure), np.arange(len(sure)), "o", ms=3)
ax.set(xlabel="probability of the predicted name", ylabel="flowers, least certain first")

# %%
# **The usual tool.** Impute column means, then use nearest neighbors. The result has no calibrated
# probabilities:

filled = SimpleImputer().fit_transform(flowers.drop(columns="species"))
knn = KNeighborsClassifier(5).fit(filled[~unnamed], flowers.loc[~unnamed, "species"])
print(
    f"nearest neighbors: "
    f"{np.mean(knn.predict(filled[unnamed]) == whole.loc[unnamed, 'species']):.0%} right"
)
