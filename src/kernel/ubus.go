// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"fastpath/src/state"
)

// ubusTime bounds the call: netifd answers in milliseconds unless it hangs.
const ubusTime = 5 * time.Second

// interfaces asks netifd. Where there is no ubus there are none.
func (k *Kernel) interfaces() ([]state.Interface, error) {
	if err := k.inject("ask ubus"); err != nil {
		return nil, err
	}
	path, err := exec.LookPath("ubus")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), ubusTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "call", "network.interface", "dump")
	cmd.WaitDelay = time.Second // a child of its own must not hold the pipe
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ubus call network.interface dump: %w", err)
	}
	return readInterfaces(out)
}

// readInterfaces reads netifd's answer: "device" is missing for device-less
// protocols, "l3_device" while the interface is down.
func readInterfaces(b []byte) ([]state.Interface, error) {
	var dump struct {
		Interface []struct {
			Interface string `json:"interface"`
			Proto     string `json:"proto"`
			Device    string `json:"device"`
			L3Device  string `json:"l3_device"`
			Up        bool   `json:"up"`
		} `json:"interface"`
	}
	if err := json.Unmarshal(b, &dump); err != nil {
		return nil, fmt.Errorf("ubus call network.interface dump: %w", err)
	}
	var list []state.Interface
	for _, i := range dump.Interface {
		list = append(list, state.Interface{Name: i.Interface, Proto: i.Proto, Device: i.Device, L3Device: i.L3Device, Up: i.Up})
	}
	slices.SortFunc(list, func(a, b state.Interface) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}
