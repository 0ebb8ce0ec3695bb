// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// Estimate is a median and its bounds: it lies above Low with 95 %, and below
// High with 95 %, whatever the distribution. With fewer than 5 values there are
// no such bounds; they are the least and the greatest value then.
type Estimate struct {
	Low    float64 `json:"low"`
	Median float64 `json:"median"`
	High   float64 `json:"high"`
	Values int     `json:"values"`
}

// estimate is for at least one value.
func estimate(values []float64) Estimate {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	rank := boundRank(n)
	return Estimate{Low: s[rank], Median: (s[(n-1)/2] + s[n/2]) / 2, High: s[n-1-rank], Values: n}
}

// enough says whether an estimate of n values has bounds.
func enough(n int) bool { return n >= 5 }

// boundRank is the index, from 0, of the ordered value that bounds the median of
// n from below. Each value lies below the median with a probability of 1/2, so
// how many do is binomial: the bound is wrong if no more than boundRank do
// (Conover, Practical Nonparametric Statistics, section 3.2).
func boundRank(n int) int {
	const error = 0.05
	p := 1.0 // of exactly k values below the median, times 2^-n
	for range n {
		p /= 2
	}
	rank := 0
	tail := p
	for k := 0; k < n/2; k++ {
		p *= float64(n-k) / float64(k+1)
		if tail += p; tail > error {
			break
		}
		rank = k + 1
	}
	return rank
}

// ratios are a's over b's values of the rounds that both have.
func ratios(a, b map[int]float64) []float64 {
	var out []float64
	for round, v := range a {
		if w, ok := b[round]; ok {
			out = append(out, v/w)
		}
	}
	return out
}

// Verdicts.
const (
	met    = "met"
	missed = "missed"
	tooFew = "too few rounds"
)

// atMost judges a median that should not be above limit: it is missed only if
// it surely is.
func atMost(e Estimate, limit float64) string {
	switch {
	case !enough(e.Values):
		return tooFew
	case e.Low > limit:
		return missed
	}
	return met
}

// atLeast judges one that should not be below.
func atLeast(e Estimate, limit float64) string {
	switch {
	case !enough(e.Values):
		return tooFew
	case e.High < limit:
		return missed
	}
	return met
}
