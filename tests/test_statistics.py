"""Tests of the tests: published examples, SciPy, brute force, and error rates by simulation."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from outcode import metrics, statistics
from outcode.statistics import (
    average_ranks,
    bayesian_signed_rank,
    corrected_t,
    friedman,
    holm,
    mcnemar,
    nemenyi,
    wilcoxon,
    win_tie_loss,
)

# [D06] Tables 2 and 6: AUC of C4.5 as it is and with m, cf, or both tuned, on 14 data sets. The
# last but one data set prints 0.975 twice, with ranks 2 and 3: the tie is one of printing.
TREES = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]
AUC = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.9751, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
ERRORS = 1 - AUC
AB = ["A", "B"]
ABC = ["A", "B", "C"]


def table(seed, n, k=2, shift=0.0):
    return np.random.default_rng(seed).normal(size=(n, k)) + np.asarray(shift)


def corrected(errors, names, **options):
    return corrected_t(errors, names, test_train_ratio=1 / 9, **options)


#: Every test that takes a table of errors.
TESTS = [average_ranks, friedman, nemenyi, wilcoxon, corrected, bayesian_signed_rank]
PAIRED = [wilcoxon, corrected]


def p_values(result):
    """All p values (or probabilities) of a result, whatever it is."""
    if hasattr(result, "pairs"):
        names = [n for n in ("p_value", "p_holm", "p_first") if hasattr(result.pairs[0], n)]
        return np.array([getattr(pair, name) for pair in result.pairs for name in names])
    return np.ravel([getattr(result, n) for n in ("p_value", "p_values") if hasattr(result, n)])


class TestDemsarsExamples:
    def test_average_ranks(self):
        ranks = average_ranks(ERRORS, TREES)
        np.testing.assert_allclose(ranks.average, [3.143, 2.000, 2.893, 1.964], atol=5e-4)
        assert "from C4.5+m+cf's 1.96 to C4.5's 3.14" in ranks.sentence

    def test_accuracies_rank_as_errors_do(self):
        ranks = average_ranks(AUC, TREES, lower_is_better=False)
        np.testing.assert_array_equal(ranks.ranks, average_ranks(ERRORS, TREES).ranks)

    def test_friedman_as_printed(self):
        result = friedman(ERRORS, TREES, tie_correction=False)
        assert result.chi2 == pytest.approx(9.28, abs=5e-3)
        assert pytest.approx(3.69, abs=5e-3) == result.F
        assert result.df == (3, 39)
        assert result.significant  # "the critical value of F(3, 39) for alpha = 0.05 is 2.85"
        assert result.p_value == pytest.approx(stats.f.sf(result.F, 3, 39))

    def test_friedman_with_ties_as_scipy(self):
        result, (chi2, p) = friedman(ERRORS, TREES), stats.friedmanchisquare(*ERRORS.T)
        assert result.chi2 == pytest.approx(chi2)
        assert result.chi2_p_value == pytest.approx(p)
        assert "The 4 methods differ on these 14 data sets" in result.sentence

    @pytest.mark.parametrize(
        ("alpha", "q", "difference"), [(0.05, 2.569, 1.25), (0.1, 2.291, 1.12)]
    )
    def test_nemenyi_difference(self, alpha, q, difference):
        result = nemenyi(ERRORS, TREES, alpha=alpha)
        assert result.q == pytest.approx(q, abs=1e-3)
        assert result.critical_difference == pytest.approx(difference, abs=5e-3)

    def test_nemenyi_groups(self):
        assert nemenyi(ERRORS, TREES).groups == (("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5"),)
        loose = nemenyi(ERRORS, TREES, alpha=0.1)
        assert loose.groups == (("C4.5+m+cf", "C4.5+m", "C4.5+cf"), ("C4.5+cf", "C4.5"))
        assert loose.sentence.startswith("2 of the 6 pairs differ significantly")

    @pytest.mark.parametrize(
        ("alpha", "row"),  # [D06] Table 5(a)
        [
            (0.05, [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]),
            (0.10, [1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920]),
        ],
    )
    def test_nemenyi_critical_values(self, alpha, row):
        ours = [nemenyi(table(0, 5, k), range(k), alpha=alpha).q for k in range(2, 11)]
        np.testing.assert_allclose(ours, row, atol=1.1e-3)  # printed cut, not rounded

    def test_wilcoxon(self):
        pair = wilcoxon(ERRORS[:, [1, 0]], ["C4.5+m", "C4.5"]).pairs[0]
        assert (pair.R_plus, pair.R_minus) == (93.0, 12.0)
        assert (pair.wins, pair.ties, pair.losses) == (10, 2, 2)
        assert pair.significant  # "... if the smaller of the sums is equal or less than 21"
        assert pair.leader == "C4.5+m"
        assert pair.sentence.startswith("C4.5+m is better than C4.5 on these 14 data sets")

    def test_holm(self):
        # [D06] section 3.2.2: z of the three variants against C4.5 as the control
        p = 2 * stats.norm.sf([2.416, 2.342, 0.512])
        np.testing.assert_allclose(p, [0.016, 0.019, 0.607], atol=2e-3)
        adjusted = holm(p)
        assert (adjusted <= 0.05).tolist() == [True, True, False]
        np.testing.assert_allclose(adjusted[[0, 2]], [3 * p[0], p[2]])


class TestRanks:
    def test_ties_share(self):
        ranks = average_ranks([[1, 1, 2], [3, 1, 1]], ABC).ranks
        np.testing.assert_array_equal(ranks, [[1.5, 1.5, 3], [3, 1.5, 1.5]])

    def test_rounding_makes_no_difference(self):
        ranks = average_ranks([[0.1 + 0.2, 0.3], [0.3, 0.1 * 3]], AB)
        np.testing.assert_array_equal(ranks.ranks, 1.5)
        assert "share the average rank 1.5" in ranks.sentence

    def test_tie_corrected_F_is_the_variance_analysis_of_the_ranks(self):
        ranks = stats.rankdata(ERRORS, axis=1)
        n, k = ranks.shape
        between = n * ((ranks.mean(axis=0) - (k + 1) / 2) ** 2).sum()
        residual = ((ranks - (k + 1) / 2) ** 2).sum() - between
        expected = (between / (k - 1)) / (residual / ((k - 1) * (n - 1)))
        assert pytest.approx(expected) == friedman(ERRORS, TREES).F

    @pytest.mark.parametrize("row", [[1, 2, 3], [1, 1, 2]])
    def test_full_agreement_has_the_exact_p_value(self, row):
        result = friedman([row] * 3, ABC)
        rows = [stats.rankdata(p) for p in itertools.permutations(row)]
        agree = [
            np.ptp([a, b, c], axis=0).max() == 0 for a, b, c in itertools.product(rows, repeat=3)
        ]
        assert math.isinf(result.F)
        assert result.p_value == pytest.approx(np.mean(agree))

    def test_all_ties(self):
        result = friedman(np.ones((4, 3)), ABC)
        assert (result.chi2, result.chi2_p_value, result.F, result.p_value) == (0, 1, 0, 1)
        assert not nemenyi(np.ones((4, 3)), ABC).significant.any()
        assert nemenyi(np.ones((4, 3)), ABC).groups == (("A", "B", "C"),)

    def test_separated_methods_form_no_group(self):
        result = nemenyi([[1, 2, 3]] * 40, ABC)
        assert result.groups == ()
        assert result.significant.sum() == 6
        assert "A as better than B, C" in result.sentence

    @given(st.integers(2, 7), st.integers(2, 30), st.integers(0, 10**6))
    @settings(max_examples=40, deadline=None)
    def test_groups_are_the_maximal_cliques(self, k, n, seed):
        errors = table(seed, n, k) + np.linspace(0, 2, k)
        result = nemenyi(errors, [str(i) for i in range(k)])
        alike = [
            frozenset(map(str, c))
            for size in range(2, k + 1)
            for c in itertools.combinations(range(k), size)
            if not result.significant[np.ix_(c, c)].any()
        ]
        assert {frozenset(g) for g in result.groups} == {
            a for a in alike if not any(a < b for b in alike)
        }
        np.testing.assert_array_equal(result.significant, result.p_values <= 0.05)

    def test_posthocs_agree(self):
        posthocs = pytest.importorskip("scikit_posthocs")
        expected = posthocs.posthoc_nemenyi_friedman(ERRORS).to_numpy()
        np.testing.assert_allclose(nemenyi(ERRORS, TREES).p_values, expected, atol=1e-6)


class TestWilcoxon:
    @pytest.mark.parametrize("n", [5, 12, 40, 100, 150])
    def test_as_scipy_without_ties(self, n):
        errors = table(n, n, shift=[0.0, 0.3])
        method = "exact" if n <= 100 else "approx"
        expected = stats.wilcoxon(*errors.T, method=method, correction=False)
        pair = wilcoxon(errors, AB).pairs[0]
        assert pair.p_value == pytest.approx(expected.pvalue, rel=1e-9)
        assert min(pair.R_plus, pair.R_minus) == expected.statistic

    @given(st.lists(st.integers(-4, 4), min_size=2, max_size=9))
    @settings(max_examples=60, deadline=None)
    def test_with_ties_and_zeros_as_all_signs(self, differences):
        pair = wilcoxon([[d / 10, 0.0] for d in differences], AB).pairs[0]
        d = np.array(differences)
        if (d == 0).sum() % 2:
            d = np.delete(d, np.flatnonzero(d == 0)[0])
        ranks = stats.rankdata(np.abs(d))
        assert pair.R_plus + pair.R_minus == ranks.sum()
        observed = abs((np.sign(d) * ranks).sum())
        assert abs(pair.R_plus - pair.R_minus) == observed
        signs = np.array(list(itertools.product([-1, 1], repeat=len(d))))
        flipped = np.abs((signs * (ranks * (d != 0))).sum(axis=1))
        assert pair.p_value == pytest.approx((flipped >= observed - 1e-9).mean())

    def test_z_is_demsars_without_ties(self):
        pair = wilcoxon(table(1, 30), AB).pairs[0]
        expected = (pair.R_plus - 30 * 31 / 4) / math.sqrt(30 * 31 * 61 / 24)
        assert pair.z == pytest.approx(expected)

    def test_advantage_is_the_median_of_walsh_averages(self):
        errors = table(3, 11)
        d = errors[:, 1] - errors[:, 0]
        walsh = [(d[i] + d[j]) / 2 for i in range(11) for j in range(i + 1)]
        assert wilcoxon(errors, AB).pairs[0].advantage == pytest.approx(np.median(walsh))

    def test_rounding_makes_no_rank(self):
        # 0.971 - 0.966 and 0.961 - 0.956 differ in the last bit only
        errors = [[0.971, 0.966], [0.956, 0.961], [0.30, 0.30], [0.1 + 0.2, 0.3]]
        pair = wilcoxon(errors, AB).pairs[0]
        assert (pair.R_plus, pair.R_minus, pair.ties, pair.p_value) == (5, 5, 2, 1)

    def test_a_control_is_compared_with_all_others(self):
        result = wilcoxon(ERRORS, TREES, control="C4.5")
        assert [(p.first, p.second) for p in result.pairs] == [("C4.5", t) for t in TREES[1:]]
        p = [pair.p_value for pair in result.pairs]
        np.testing.assert_allclose([pair.p_holm for pair in result.pairs], holm(p))

    def test_too_few_data_sets_are_said(self):
        result = wilcoxon([[0, i] for i in range(1, 6)], AB)
        assert result.pairs[0].p_value == 2 / 32
        assert (
            "these 5 data sets, too few for any pair to differ significantly (p = 0.062"
            in result.sentence
        )

    def test_summary_names_the_clearest(self):
        result = wilcoxon(table(0, 30, 3, shift=[0, 0, 3]), ABC)
        assert result.sentence.startswith("2 of the 3 pairs differ significantly")
        assert "as better than C (p < 0.001 after Holm" in result.sentence


class TestHolm:
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
    def test_rejects_what_the_step_down_procedure_does(self, p):
        adjusted, order = holm(p), np.argsort(p, kind="stable")
        rejected = set()
        for step, i in enumerate(order):
            if p[i] * (len(p) - step) > 0.05:
                break
            rejected.add(int(i))
        assert set(np.flatnonzero(adjusted <= 0.05).tolist()) == rejected
        assert (adjusted >= np.array(p)).all()
        assert (adjusted <= 1).all()


class TestCorrectedT:
    def test_without_correction_it_is_the_paired_t_test(self):
        errors = table(5, 10)
        pair = corrected_t(errors, AB, test_train_ratio=0).pairs[0]
        expected = stats.ttest_rel(errors[:, 1], errors[:, 0])
        assert pair.t == pytest.approx(expected.statistic)
        assert pair.p_value == pytest.approx(expected.pvalue)
        np.testing.assert_allclose(pair.interval, expected.confidence_interval())

    def test_correction_widens_by_the_formula(self):
        errors = table(5, 10)
        plain = corrected_t(errors, AB, test_train_ratio=0).pairs[0]
        pair = corrected_t(errors, AB, test_train_ratio=1 / 9).pairs[0]
        assert pair.t == pytest.approx(plain.t * math.sqrt(0.1 / (0.1 + 1 / 9)))
        assert pair.df == 9
        assert pair.p_value == pytest.approx(2 * stats.t.sf(abs(pair.t), 9))

    def test_one_difference_in_all_folds(self):
        result = corrected([[0.1 + 0.01 * i, 0.2 + 0.01 * i] for i in range(10)], AB)
        pair = result.pairs[0]
        assert (pair.t, pair.p_value) == (math.inf, 2**-9)
        assert pair.leader == "A"
        assert corrected([[0, 1], [0, 1]], AB).pairs[0].p_value == 0.5

    def test_sentence(self):
        result = corrected([[0.20, 0.21], [0.25, 0.21], [0.22, 0.23], [0.2, 0.2]], ["SVM", "JCL"])
        assert result.sentence == (
            "SVM and JCL are not significantly different on these 4 folds "
            "(p = 0.75; JCL ahead by 0.005 on average)."
        )

    @pytest.mark.parametrize("ratio", [-0.1, math.nan, math.inf])
    def test_ratio_is_checked(self, ratio):
        with pytest.raises(ValueError, match="test_train_ratio"):
            corrected_t(table(0, 5), AB, test_train_ratio=ratio)

    def test_baycomp_agrees(self):
        baycomp = pytest.importorskip("baycomp")
        errors = table(2, 10)
        pair = corrected(errors, AB).pairs[0]
        left, _ = baycomp.CorrelatedTTest.probs(errors[:, 1], errors[:, 0])
        # the posterior's tail with a flat prior is the one-sided p value
        assert 2 * min(left, 1 - left) == pytest.approx(pair.p_value, rel=1e-6)


class TestWinTieLoss:
    def test_counts_are_those_of_single_tests(self):
        rng = np.random.default_rng(4)
        folds = rng.normal(size=(30, 5, 3)) * 0.5 + rng.normal(size=(30, 1, 3))
        result = win_tie_loss(folds, ABC)
        for pair, (i, j) in zip(result.pairs, [(0, 1), (0, 2), (1, 2)], strict=True):
            t, p = stats.ttest_rel(folds[:, :, i], folds[:, :, j], axis=1)
            wins, losses = ((p <= 0.05) & (t < 0)).sum(), ((p <= 0.05) & (t > 0)).sum()
            assert (pair.wins, pair.ties, pair.losses) == (wins, 30 - wins - losses, losses)
        assert result.sentence.startswith("Most one-sided of the 3 pairs: ")

    def test_correction_takes_wins_away(self):
        rng = np.random.default_rng(4)
        folds = rng.normal(size=(30, 5, 2)) * 0.5 + rng.normal(size=(30, 1, 2))
        plain = win_tie_loss(folds, AB).pairs[0]
        careful = win_tie_loss(folds, AB, test_train_ratio=1 / 4).pairs[0]
        assert careful.ties > plain.ties

    def test_missing_cells(self):
        folds = [table(0, 5), table(1, 4), np.full((5, 2), np.nan), table(2, 6)]
        folds[3][0, 1] = np.nan
        result = win_tie_loss(folds, AB)
        assert (result.left_out, result.folds_left_out) == ((2,), 1)
        assert "these 3 data sets" in result.sentence
        assert "1 more left out" in result.sentence

    @pytest.mark.parametrize(
        "folds", [[table(0, 5)], [], [np.full((5, 2), np.nan)] * 3, [table(0, 5), [1, 2]]]
    )
    def test_unusable_input(self, folds):
        with pytest.raises(ValueError):
            win_tie_loss(folds, AB)


def answers(only_first, only_second, both=3, none=20):
    return np.repeat(
        [[1, 0], [0, 1], [1, 1], [0, 0]], [only_first, only_second, both, none], axis=0
    ).astype(bool)


class TestMcNemar:
    @pytest.mark.parametrize(("b", "c"), [(1, 9), (0, 5), (12, 12), (7, 3), (0, 1), (24, 0)])
    def test_few_are_binomial(self, b, c):
        pair = mcnemar(answers(b, c), AB).pairs[0]
        assert pair.exact
        assert pair.p_value == pytest.approx(stats.binomtest(b, b + c).pvalue)
        assert pair.leader == (None if b == c else "AB"[b > c])

    def test_many_are_chi2(self):
        # Agresti's survey: 86 and 150 changed their mind
        pair = mcnemar(answers(86, 150), AB).pairs[0]
        assert not pair.exact
        assert pair.chi2 == pytest.approx((150 - 86 - 1) ** 2 / 236)
        assert pair.p_value == pytest.approx(stats.chi2.sf(pair.chi2, 1))
        assert pair.significant
        assert pair.advantage == pytest.approx(64 / 259)
        assert mcnemar(answers(30, 30), AB).pairs[0].p_value == 1

    def test_nothing_discordant(self):
        result = mcnemar(answers(0, 0), AB)
        assert result.pairs[0].p_value == 1
        assert (
            "A and B are not significantly different on these 23 test rows (p = 1"
            in result.sentence
        )

    def test_only_right_and_wrong(self):
        with pytest.raises(ValueError, match="True"):
            mcnemar([[0.1, 0.2], [0.3, 0.1]], AB)

    def test_missing_answers(self):
        wrong = answers(1, 9).astype(float)
        wrong[0, 0] = np.nan
        result = mcnemar(wrong, AB)
        assert result.left_out == (0,)
        assert result.pairs[0].only_first == 0


class TestBayesianSignedRank:
    def test_a_seed_repeats(self):
        first, second = (bayesian_signed_rank(ERRORS, TREES) for _ in range(2))
        assert [p.p_first for p in first.pairs] == [p.p_first for p in second.pairs]

    def test_other_methods_change_nothing(self):
        alone = bayesian_signed_rank(ERRORS[:, :2], TREES[:2]).pairs[0]
        assert bayesian_signed_rank(ERRORS, TREES).pairs[0].p_first == alone.p_first

    @pytest.mark.parametrize("rope", [0.0, 0.01, 0.03])
    def test_mean_shares_are_exact(self, rope):
        # E w_i w_j of Dirichlet(a) is a_i (a_j + [i = j]) / (S (S + 1))
        pair = bayesian_signed_rank(ERRORS[:, :2], TREES[:2], rope=rope).pairs[0]
        z = np.r_[0, np.round(ERRORS[:, 1] - ERRORS[:, 0], 9)]
        a = np.r_[0.5, np.ones(14)]
        moment = (np.outer(a, a) + np.diag(a)) / (a.sum() * (a.sum() + 1))
        sums = np.round(z[:, None] + z, 9)
        expected = [
            moment[sums > 2 * rope].sum(),
            moment[np.abs(sums) <= 2 * rope].sum(),
            moment[sums < -2 * rope].sum(),
        ]
        np.testing.assert_allclose(pair.theta, expected, atol=2e-3)
        assert pair.p_first + pair.p_rope + pair.p_second == pytest.approx(1)

    def test_baycomp_agrees(self):
        baycomp = pytest.importorskip("baycomp")
        errors = 0.02 * table(8, 12, shift=[0, -0.5])
        pair = bayesian_signed_rank(errors, AB).pairs[0]
        expected = baycomp.SignedRankTest.probs(*errors.T, 0.01, random_state=0)
        np.testing.assert_allclose([pair.p_second, pair.p_rope, pair.p_first], expected, atol=0.01)
        assert 0.1 < pair.p_rope < 0.9

    def test_verdicts(self):
        noise = table(1, 20) * 1e-3
        better = bayesian_signed_rank(noise + np.array([0.1, 0.2]), AB)
        assert better.pairs[0].better == "A"
        assert better.sentence.startswith("A is practically better than B on these 20 data sets")
        assert bayesian_signed_rank(noise + np.array([0.2, 0.1]), AB).pairs[0].better == "B"
        assert bayesian_signed_rank(noise, AB).pairs[0].equal
        unsure = bayesian_signed_rank(table(1, 4) * 0.05, AB)
        assert unsure.sentence.startswith("Nothing is sure about A and B")

    @pytest.mark.parametrize("rope", [-1, math.nan, math.inf])
    def test_rope_is_checked(self, rope):
        with pytest.raises(ValueError, match="rope"):
            bayesian_signed_rank(ERRORS, TREES, rope=rope)

    def test_random_state(self):
        results = [
            bayesian_signed_rank(ERRORS[:, :2], AB, random_state=seed).pairs[0].p_second
            for seed in (np.random.RandomState(1), 1, 2)
        ]
        assert results[0] == results[1] != results[2]
        assert results[1] == pytest.approx(results[2], abs=0.015)


@pytest.mark.parametrize("test", TESTS)
class TestEveryTest:
    def test_results_are_frozen_and_speak(self, test):
        result = test(ERRORS, TREES)
        assert dataclasses.is_dataclass(result)
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.sentence = ""
        assert result.sentence.endswith(".")
        assert "these 14" in result.sentence

    @pytest.mark.parametrize(
        ("errors", "names", "message"),
        [
            (np.ones(4), AB, r"shape \(4,\)"),
            (np.ones((2, 2, 2)), AB, "two dimensions"),
            (np.ones((4, 3)), AB, "3 columns, but there are 2 names"),
            (np.ones((4, 1)), ["A"], "at least 2 methods"),
            (np.ones((1, 2)), AB, "at least 2"),
            (np.ones((0, 2)), AB, "got 0"),
            (np.full((4, 2), np.nan), AB, "got 0"),
            ([[1, np.nan], [1, np.nan], [1, 2]], AB, "'B' misses 2 of 3"),
            ([[1, np.inf], [1, 2]], AB, "infinity"),
            ([["x", "y"], ["x", "y"]], AB, "number"),
            (np.ones((4, 2)), ["A", "A"], "same name"),
        ],
    )
    def test_unusable_tables(self, test, errors, names, message):
        with pytest.raises(ValueError, match=message):
            test(errors, names)

    def test_a_missing_cell_leaves_its_row_out(self, test):
        gaps = ERRORS.copy()
        gaps[[2, 7], [0, 3]] = np.nan
        result, without = test(gaps, TREES), test(np.delete(ERRORS, [2, 7], axis=0), TREES)
        left_out = result.left_out if hasattr(result, "left_out") else result.ranks.left_out
        assert left_out == (2, 7)
        assert "(2 left out: a cell is missing)" in result.sentence
        np.testing.assert_array_equal(p_values(result), p_values(without))

    @pytest.mark.parametrize("k", [2, 4])
    def test_identical_columns_give_no_nan(self, test, k):
        for errors in (np.tile(ERRORS[:, :1], k), np.zeros((5, k))):
            result = test(errors, TREES[:k])
            assert np.isfinite(p_values(result)).all()
            assert " is better than " not in result.sentence

    def test_two_rows_are_enough(self, test):
        assert np.isfinite(p_values(test([[0.1, 0.2], [0.3, 0.1]], AB))).all()

    def test_higher_is_better_turns_it_round(self, test):
        low, high = test(ERRORS, TREES), test(-ERRORS, TREES, lower_is_better=False)
        assert low.sentence == high.sentence
        np.testing.assert_array_equal(p_values(low), p_values(high))

    def test_scale_changes_no_p_value(self, test):
        for scale in (1e-200, 100, 1e200):
            options = {"rope": 0.01 * scale} if test is bayesian_signed_rank else {}
            np.testing.assert_allclose(
                p_values(test(scale * ERRORS, TREES, **options)),
                p_values(test(ERRORS, TREES)),
                rtol=1e-9,
            )


@pytest.mark.parametrize("test", [friedman, nemenyi, wilcoxon, corrected])
@pytest.mark.parametrize("alpha", [0, 1, -0.1, math.nan])
def test_level_is_checked(test, alpha):
    with pytest.raises(ValueError, match="alpha"):
        test(ERRORS, TREES, alpha=alpha)


@pytest.mark.parametrize("test", [*PAIRED, bayesian_signed_rank])
def test_unknown_control(test):
    with pytest.raises(ValueError, match=r"Did you mean 'C4\.5\+m'"):
        test(ERRORS, TREES, control="c4.5+m")


@pytest.mark.parametrize("test", PAIRED)
@given(errors=st.lists(st.tuples(*[st.integers(0, 5)] * 3), min_size=2, max_size=8))
@settings(max_examples=40, deadline=None)
def test_pairs_say_what_their_numbers_say(test, errors):
    for pair in test(np.array(errors) / 10, ABC).pairs:
        assert 0 <= pair.p_value <= pair.p_holm <= 1
        assert pair.significant == (pair.p_holm <= 0.05)
        if pair.significant:
            assert pair.sentence.startswith(f"{pair.leader} is better than {pair.other}")
            assert (pair.leader == pair.first) == (pair.advantage > 0) or pair.advantage == 0
        else:
            assert (
                f"{pair.first} and {pair.second} are not significantly different" in pair.sentence
            )


def test_a_p_value_is_never_rounded_across_its_level():
    assert statistics.pairs.p_words(0.0499, 0.05) == "p = 0.05"
    assert statistics.pairs.p_words(0.0501, 0.05) == "p = 0.0501"
    assert statistics.pairs.p_words(0.31, 0.05) == "p = 0.31"
    assert statistics.pairs.p_words(1e-9, 0.05) == "p < 0.001"


class TestErrorRates:
    """Shares of false claims in simulations; standard errors are 0.0015 to 0.0035."""

    def test_wilcoxon_with_holm_when_all_are_alike(self):
        tables = np.random.default_rng(0).normal(size=(4000, 30, 3))
        false = [any(p.significant for p in wilcoxon(t, ABC, control="A").pairs) for t in tables]
        assert np.mean(false) == pytest.approx(0.05, abs=0.01)

    def test_wilcoxon_with_holm_gives_no_level_away(self):
        # C is far worse and always found, so that the last step is at the full level
        tables = np.random.default_rng(1).normal(size=(4000, 30, 3)) + np.array([0, 0, 9])
        pairs = [wilcoxon(t, ABC, control="A").pairs for t in tables]
        assert all(other.significant for _, other in pairs)
        assert np.mean([null.significant for null, _ in pairs]) == pytest.approx(0.05, abs=0.01)

    @pytest.mark.slow
    def test_wilcoxon_with_holm_over_all_pairs_is_cautious(self):
        # differences of all pairs are correlated, and Holm allows for the worst
        tables = np.random.default_rng(2).normal(size=(5000, 30, 4))
        false = [any(p.significant for p in wilcoxon(t, TREES).pairs) for t in tables]
        assert 0.03 < np.mean(false) < 0.05

    @pytest.mark.parametrize(("n", "k"), [(30, 4), (30, 5), (20, 5)])
    def test_nemenyi(self, n, k):
        tables = np.random.default_rng(n + k).normal(size=(20_000, n, k))
        critical = nemenyi(tables[0], range(k)).critical_difference
        false = np.ptp(stats.rankdata(tables, axis=2).mean(axis=1), axis=1) >= critical
        assert false.mean() == pytest.approx(0.05, abs=0.01)
        claimed = [nemenyi(t, range(k)).significant.any() for t in tables[:50]]
        assert claimed == false[:50].tolist()

    def test_iman_davenport(self):
        tables = np.random.default_rng(5).normal(size=(4000, 15, 4))
        false = [friedman(t, TREES).significant for t in tables]
        assert np.mean(false) == pytest.approx(0.05, abs=0.01)

    @pytest.mark.parametrize("truth", [0.0, 0.3])
    def test_corrected_t_covers_under_random_subsampling(self, truth):
        # 15 random test sets of 50 of 250 rows each: they overlap, and plain t claims far too much
        rng, n_tables, n_rows, n_test, n_folds = np.random.default_rng(6), 3000, 250, 50, 15
        rows = rng.normal(truth, size=(n_tables, n_rows))
        chosen = rng.random((n_tables, n_folds, n_rows)).argpartition(n_test, axis=2)[:, :, :n_test]
        folds = np.take_along_axis(rows[:, None, :], chosen, axis=2).mean(axis=2)
        tables = np.stack([np.zeros_like(folds), folds], axis=2)
        missed = {}
        for ratio in (0.0, n_test / (n_rows - n_test)):
            pairs = [corrected_t(t, AB, test_train_ratio=ratio).pairs[0] for t in tables]
            missed[ratio] = np.mean([not p.interval[0] <= truth <= p.interval[1] for p in pairs])
            if truth == 0:
                assert missed[ratio] == np.mean([p.significant for p in pairs])
        assert missed[0.25] == pytest.approx(0.05, abs=0.012)
        assert missed[0.0] > 0.2

    def test_mcnemar_keeps_its_level(self):
        rng = np.random.default_rng(7)
        false = {}
        for n_rows in (60, 600):  # some 11 and some 108 rows on which the two disagree
            tables = rng.random((2000, n_rows, 2)) < 0.1
            false[n_rows] = np.mean([mcnemar(t, AB).pairs[0].significant for t in tables])
        assert false[60] <= 0.05
        assert 0.03 <= false[600] <= 0.05


def test_the_posterior_over_folds_agrees_with_draws():
    rng = np.random.default_rng(0)
    errors = 0.2 + 0.03 * rng.standard_normal((5, 2))
    difference = errors[:, 1] - errors[:, 0]
    spread = np.sqrt((1 / 5 + 1 / 4) * difference.var(ddof=1))
    draws = difference.mean() + spread * rng.standard_t(4, size=200_000)
    (pair,) = statistics.bayesian_corrected_t(errors, ["A", "B"], test_train_ratio=1 / 4).pairs
    shares = [np.mean(draws > 0.01), np.mean(np.abs(draws) <= 0.01), np.mean(draws < -0.01)]
    assert (pair.p_first, pair.p_rope, pair.p_second) == pytest.approx(shares, abs=0.005)


@pytest.mark.parametrize("rows", [60, 400, 2000])
@pytest.mark.parametrize("low", [0.5, 0.9])
def test_perfect_probabilities_are_rarely_called_wrong(rows, low):
    rng = np.random.default_rng(rows)
    alarms = 0
    for _ in range(300):
        stated = rng.uniform(low, 1, size=rows)
        right = rng.random(rows) < stated
        proba = np.c_[stated, 1 - stated]
        diagram = metrics.reliability(np.where(right, proba.argmax(1), proba.argmin(1)), proba)
        parts = diagram.count, diagram.confidence, diagram.accuracy
        alarms += statistics.calibration(*parts, alpha=0.05).significant
    assert alarms <= 300 * 0.05 + 2.6 * np.sqrt(300 * 0.05 * 0.95)


def test_probabilities_that_are_too_high_are_found():
    found = statistics.calibration(np.array([1797]), np.array([0.999]), np.array([0.982]))
    assert found.significant
    assert found.biased
    assert found.lean == pytest.approx(0.017)
    again = statistics.calibration(np.array([2000]), np.array([0.95]), np.array([0.945]), repeats=5)
    assert not again.significant


def test_every_test_of_a_report_runs_on_its_table():
    rng = np.random.default_rng(0)
    table = 0.2 + 0.03 * rng.standard_normal((8, 3))
    for test in statistics.TESTS:
        rows = table > 0.2 if test.unit == "test rows" else table
        found = test.run(rows, ["A", "B", "C"], control="A", test_train_ratio=0.25)
        assert found.sentence
        if test.role != "overall":
            assert [(pair.first, pair.second) for pair in found.pairs] == [("A", "B"), ("A", "C")]
    for unit in ("folds", "data sets", "test rows"):
        assert any(test.unit == unit and test.role == "pairs" for test in statistics.TESTS)


@pytest.mark.parametrize(("methods", "folds"), [(2, 5), (5, 5), (8, 10)])
def test_the_choice_of_the_best_keeps_the_level(methods, folds):
    """Holm over the best method's pairs is wrong in 8 to 12 %, over all pairs in 1 %."""
    rng, found = np.random.default_rng(1), 0
    for _ in range(2000):
        table = rng.normal(size=(folds, methods)) + rng.normal(size=methods) / np.sqrt(folds - 1)
        d = np.delete(table, table.mean(axis=0).argmin(), axis=1)
        d = d - table[:, [table.mean(axis=0).argmin()]]
        t = d.mean(axis=0) / d.std(axis=0, ddof=1) / np.sqrt(1 / folds + 1 / (folds - 1))
        p = statistics.against_best(2 * stats.t.sf(t, folds - 1), folds - 1)
        found += p.min() <= 0.05
    assert 0.035 < found / 2000 < 0.065  # three standard errors
