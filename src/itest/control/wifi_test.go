// SPDX-License-Identifier: Apache-2.0

//go:build !guest

package control

import (
	"os/exec"
	"slices"
	"testing"

	"fastpath/src/testkit"
	"fastpath/src/testkit/vm"
)

// An access point of mac80211_hwsim, whose two radios hear one another.
func TestWiFi(t *testing.T) {
	const kernel = "6.12"
	if !slices.Contains(vm.Kernels(), kernel) {
		t.Log("runs with kernel ", kernel)
		return
	}
	k := vm.NeedKernel(t, kernel)
	programs := []string{"iw", "hostapd"}
	for _, p := range programs {
		_, err := exec.LookPath(p)
		testkit.Need(t, err == nil, "no "+p)
	}
	cfg := config(t, k, daemon(t))
	cfg.Modules = append(vm.DefaultModules(), "mac80211_hwsim")
	cfg.Programs = append(cfg.Programs, programs...)
	vm.GoTest(t, cfg, "./src/itest/control", "^TestWiFi$")
}
