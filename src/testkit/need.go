// SPDX-License-Identifier: Apache-2.0

// Package testkit is what the tests share: namespaces, the VM runner, frame
// builders, and the one way to skip.
package testkit

import (
	"os"
	"testing"
)

// Need skips the test, with the reason, unless ok. With MUSTRUN=1, as in CI,
// it fails it instead: a skip must not hide.
func Need(t testing.TB, ok bool, why string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv("MUSTRUN") == "1" {
		t.Fatalf("MUSTRUN=1, but this can't run here: %s", why)
	}
	t.Skipf("not run: %s", why)
}
