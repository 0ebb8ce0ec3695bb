// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestEstimate(t *testing.T) {
	thirty := make([]float64, 30)
	for i := range thirty {
		thirty[i] = float64((i*7)%30 + 1) // 1 to 30, shuffled
	}
	for _, tt := range []struct {
		in   []float64
		want Estimate
	}{
		{[]float64{7}, Estimate{7, 7, 7, 1}},
		{[]float64{3, 1}, Estimate{1, 2, 3, 2}},
		{[]float64{8, 2, 4, 6}, Estimate{2, 5, 8, 4}},
		{[]float64{5, 4, 3, 2, 1}, Estimate{1, 3, 5, 5}},
		{thirty, Estimate{11, 15.5, 20, 30}}, // Conover, table A3: 10 of 30 have a probability of 0.0494
	} {
		if got := estimate(tt.in); got != tt.want {
			t.Errorf("estimate(%v) = %v, want %v", tt.in, got, tt.want)
		}
	}
}

// The rank against exact arithmetic: the greatest whose error is not above 5 %.
func TestBoundRank(t *testing.T) {
	tail := func(n, below int) *big.Rat { // fewer than below of n
		sum := new(big.Int)
		for k := range below {
			sum.Add(sum, new(big.Int).Binomial(int64(n), int64(k)))
		}
		return new(big.Rat).SetFrac(sum, new(big.Int).Lsh(big.NewInt(1), uint(n)))
	}
	limit := big.NewRat(1, 20)
	for n := 1; n <= 200; n++ {
		got := boundRank(n)
		if enough(n) != (tail(n, 1).Cmp(limit) <= 0) {
			t.Errorf("%d values: enough: %v", n, enough(n))
		}
		if enough(n) && tail(n, got+1).Cmp(limit) > 0 || tail(n, got+2).Cmp(limit) <= 0 {
			t.Errorf("%d values: rank %d", n, got)
		}
	}
}

// The bounds hold as often as they say, also for lopsided values.
func TestBoundsHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const tries, median = 20_000, 0.25 // of the square of a value between 0 and 1
	low, high := 0, 0
	for range tries {
		values := make([]float64, 30)
		for i := range values {
			v := rng.Float64()
			values[i] = v * v
		}
		e := estimate(values)
		if e.Low <= median {
			low++
		}
		if e.High >= median {
			high++
		}
	}
	for _, held := range []int{low, high} {
		if share := float64(held) / tries; share < 0.945 || share > 0.96 {
			t.Errorf("a bound held in %.3f of all tries", share)
		}
	}
}

// A ratio is over the same round's value, not over the median.
func TestRatios(t *testing.T) {
	got := ratios(map[int]float64{0: 100, 1: 300, 5: 800, 9: 7}, map[int]float64{0: 200, 1: 300, 2: 5, 5: 1000})
	slices.Sort(got)
	if !slices.Equal(got, []float64{0.5, 0.8, 1}) {
		t.Errorf("got %v", got)
	}
}

func TestJudging(t *testing.T) {
	for _, tt := range []struct {
		e             Estimate
		most, atleast string // against 1
	}{
		{Estimate{0.8, 0.9, 0.99, 30}, met, missed},
		{Estimate{0.9, 1.05, 1.2, 30}, met, met}, // it may be on either side
		{Estimate{1, 1.1, 1.2, 30}, met, met},
		{Estimate{1.01, 1.1, 1.2, 30}, missed, met},
		{Estimate{2, 2, 2, 4}, tooFew, tooFew},
	} {
		if got := atMost(tt.e, 1); got != tt.most {
			t.Errorf("%v at most 1: %s, want %s", tt.e, got, tt.most)
		}
		if got := atLeast(tt.e, 1); got != tt.atleast {
			t.Errorf("%v at least 1: %s, want %s", tt.e, got, tt.atleast)
		}
	}
}
