package main

import "fmt"

// goal is what a ratio should be.
type goal struct {
	says string
	met  func(float64) bool
}

var none = goal{"", func(float64) bool { return true }}

func atMost(x float64) goal {
	return goal{fmt.Sprintf("at most %.2f", x), func(v float64) bool { return v <= x }}
}

func atLeast(x float64) goal {
	return goal{fmt.Sprintf("at least %.2f", x), func(v float64) bool { return v >= x }}
}

// report is the table, printed row by row.
type report struct{ missed int }

func newReport() *report {
	fmt.Printf("%-60s %10s %10s    %-6s %-16s %s\n", "", "this", "bare", "ratio", "quartiles", "goal")
	return &report{}
}

// compare prints medians of both sides and of their ratio, round by round.
func (r *report) compare(name, unit string, a, b []cost, of func(cost) float64, g goal) {
	x, y := pick(a, of), pick(b, of)
	ratio := x.over(y)
	r.row(name, unit, x.median(), y.median(), "%.3f", ratio.median(), ratio, g)
}

// own prints what is left of one side without the other: Do over the memory store, without the memory store.
func (r *report) own(name string, with, without []cost) {
	for _, q := range []struct {
		unit string
		of   func(cost) float64
	}{{"CPU, µs", cpuOf}, {"allocations", allocsOf}, {"kB", bytesOf}} {
		a, b := pick(with, q.of).median(), pick(without, q.of).median()
		fmt.Printf("%-60s %10s %10s    %-6s\n", name+": "+q.unit, number(a), number(b), number(a-b))
	}
}

// requests prints one kind of operation, against bare calls whose values were made once, and against those made anew.
func (r *report) requests(name string, c [][]cost, most float64) {
	r.compare(name+": CPU", "µs", c[0], c[1], cpuOf, atMost(most))
	r.compare(name+": CPU, against values made anew", "µs", c[0], c[2], cpuOf, none)
	r.compare(name+": allocations", "", c[0], c[1], allocsOf, atMost(most))
	r.compare(name+": allocations, against values made anew", "", c[0], c[2], allocsOf, none)
	r.compare(name+": bytes allocated", "kB", c[0], c[1], bytesOf, none)
	r.compare(name+": time", "µs", c[0], c[1], wallOf, none)
}

func (r *report) row(name, unit string, a, b float64, format string, ratio float64, all numbers, g goal) {
	spread := ""
	if len(all) > 0 {
		low, high := all.quartiles()
		spread = fmt.Sprintf("%.3f to %.3f", low, high)
	}
	verdict := g.says
	if !g.met(ratio) {
		verdict += "  MISSED"
		r.missed++
	}
	if unit != "" {
		name += ", " + unit
	}
	fmt.Printf("%-60s %10s %10s    %-6s %-16s %s\n", name, number(a), number(b), fmt.Sprintf(format, ratio), spread, verdict)
}

func number(x float64) string {
	if x < 100 {
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
