// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"os"

	"fastpath/src/config"
	"fastpath/src/status"
)

// load reads the files. With an error the last good configuration stays in
// force; when there is none, at the start, what can be read of the files is
// better than nothing.
func (a *Agent) load() {
	conf, err := config.Load(a.Dirs)
	now := status.Config{InForce: status.AsWritten}
	switch {
	case err == nil:
		a.conf, a.good = conf, true
	case a.good:
		now.InForce = status.LastGood
	default:
		now.InForce = status.Lenient
		a.conf, _ = config.LoadLenient(a.Dirs) // the error is Load's
	}
	now.Problems = problems(err)
	for _, p := range now.Problems {
		a.Log.Error(p, "in force", now.InForce)
	}
	a.inForce = now
}

// problems are the lines file:line: reason of Load's error.
func problems(err error) []string {
	if err == nil {
		return nil
	}
	var list config.Problems
	if !errors.As(err, &list) {
		return []string{err.Error()}
	}
	var lines []string
	for _, p := range list {
		lines = append(lines, p.String())
	}
	return lines
}

// document is the present state of things. Its lists and maps are never nil:
// in JSON that is [] or {} and not null.
func (a *Agent) document() status.Document {
	doc := status.Document{
		Version:  a.Version,
		PID:      os.Getpid(),
		Since:    a.since,
		Kernel:   a.seen.Release,
		Report:   a.report,
		Early:    a.check.result,
		Policies: a.policies(),
		Drops:    a.drops,
		Traffic:  a.meter.Traffic(),
		Mix:      a.mix.observed(),

		Multicast: filled(a.seen.Multicast),
		Engines:   filled(a.seen.Engines),
		Refused:   filled(a.seen.Refused),
		Passive:   a.seen.Passive,
		Look:      a.last,
		Plan:      a.plan,
		Config:    a.inForce,
	}
	doc.Report.Ports, doc.Report.Notices = list(doc.Report.Ports), list(doc.Report.Notices)
	doc.Look.Problems, doc.Plan.Steps = list(doc.Look.Problems), list(doc.Plan.Steps)
	doc.Config.Problems = list(doc.Config.Problems)
	doc.Recommendations = []string{}
	if line := status.Recommend(doc.Report, doc.Traffic, a.seen.Links, a.seen.Refused); line != "" {
		doc.Recommendations = append(doc.Recommendations, line)
	}
	return doc
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func filled[T any](m map[string]T) map[string]T {
	if m == nil {
		return map[string]T{}
	}
	return m
}

// say tells the service manager a state together with the one line of status.
func (a *Agent) say(state string) {
	a.said = a.document().Summary()
	a.SdNotify(state + "\nSTATUS=" + a.said)
}

// publish tells the service manager the one line of status when it is new.
func (a *Agent) publish() {
	if line := a.document().Summary(); line != a.said {
		a.said = line
		a.SdNotify("STATUS=" + line)
	}
}
