// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"fastpath/src/state"
)

// validationChain is one of the chains of source validation.
func validationChain(name string, hook uint32) chainSpec {
	return chainSpec{table: state.TableName, name: name, family: unix.NFPROTO_INET, hook: hook, priority: state.ValidatePriority}
}

var validationSpecs = []chainSpec{
	validationChain(state.ValidateInput, unix.NF_INET_LOCAL_IN),
	validationChain(state.ValidateForward, unix.NF_INET_FORWARD),
}

// validationRules is the part of v that is in a chain; nil: none is.
func validationRules(v *state.Validation, chain string) *[]state.Rule {
	switch chain {
	case state.ValidateInput:
		return &v.Input
	case state.ValidateForward:
		return &v.Forward
	}
	return nil
}

// addValidation adds the chains of source validation, if there is any.
func (b *batch) addValidation(v state.Validation) error {
	for _, chain := range validationSpecs {
		rules := *validationRules(&v, chain.name)
		if len(rules) == 0 {
			continue
		}
		b.addChain(chain)
		for _, r := range rules {
			if err := b.addStateRule(chain, r, ""); err != nil {
				return fmt.Errorf("rule %q: %w", r, err)
			}
		}
	}
	return nil
}

// deleteValidation deletes those of the chains that there are.
func (b *batch) deleteValidation(chains []string) {
	for _, chain := range validationSpecs {
		if slices.Contains(chains, chain.name) {
			b.deleteChain(chain.family, chain.table, chain.name)
		}
	}
}

// validationChains tells how many of the chains of v are as we would have made them.
func (c *conn) validationChains(v state.Validation) (n int, err error) {
	for _, want := range validationSpecs {
		if len(*validationRules(&v, want.name)) == 0 {
			continue
		}
		have, err := c.chain(want.family, want.table, want.name)
		if err != nil {
			return 0, err
		}
		if have != nil && have.typ == "filter" && have.hook == want.hook && have.priority == want.priority && have.policy == policyAccept {
			n++
		}
	}
	return n, nil
}

// looseReason is why the way back can't be looked up without regard to the device.
func looseReason(err error, strict state.Ability) string {
	switch {
	case !strict.OK:
		return strict.Reason
	case errors.Is(err, unix.EOPNOTSUPP):
		return "this kernel looks routes up in forward only with regard to the device; 'strict' works " + code(unix.EOPNOTSUPP)
	}
	return "rules can't look up routes: " + Explain(err)
}
