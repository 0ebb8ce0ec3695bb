// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var named = regexp.MustCompile(`SCENARIO=([a-z][a-z-]*)`)

// Every scenario that Makefile or README names exists, and the Makefile names each.
func TestNamed(t *testing.T) {
	for _, file := range []string{"Makefile", "README.md"} {
		text, err := os.ReadFile("../../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			if _, err := Find(m[1]); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		if file != "Makefile" {
			continue
		}
		for _, s := range Scenarios {
			if !strings.Contains(string(text), s.Name) {
				t.Errorf("%s doesn't name scenario %s", file, s.Name)
			}
		}
	}
}

// A wrong name is answered with the right ones.
func TestFind(t *testing.T) {
	if s, err := Find("two-wans"); err != nil || s.Name != "two-wans" {
		t.Errorf("two-wans: %+v, %v", s, err)
	}
	_, err := Find("tow-wans")
	if err == nil {
		t.Fatal("tow-wans was found")
	}
	for _, s := range Scenarios {
		if !strings.Contains(err.Error(), s.Name) {
			t.Errorf("%v\nlacks %s", err, s.Name)
		}
	}
}
