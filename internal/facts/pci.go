package facts

import (
	"strings"

	"gpu-operator/api/v1alpha1"
)

const (
	pciVendorNVIDIA  = "10de"
	pciClassDisplay  = "03"
	pciIdentityWidth = 4
	pciClassWidth    = 6
)

// PCIEntry are the contents of a PCI device's files in sysfs, as read.
type PCIEntry struct {
	// Address is the directory's name (0000:19:00.0).
	Address string
	// Vendor, Device and Class are the files' contents ("0x10de\n").
	Vendor, Device, Class string
	// Driver is the name of the bound driver; empty when none.
	Driver string
}

// GPU returns the entry as a GPU, and whether it is one: vendor 10de and a class of
// display controllers (03xx). Audio functions and NVSwitch bridges of the same
// vendor are none.
func (e PCIEntry) GPU() (v1alpha1.PCIGPU, bool) {
	class := hexDigits(e.Class, pciClassWidth)
	if hexDigits(e.Vendor, pciIdentityWidth) != pciVendorNVIDIA || !strings.HasPrefix(class, pciClassDisplay) {
		return v1alpha1.PCIGPU{}, false
	}
	return v1alpha1.PCIGPU{Address: e.Address, DeviceID: hexDigits(e.Device, pciIdentityWidth), Class: class, Driver: e.Driver}, true
}

// hexDigits strips white space and 0x and pads with zeros to width.
func hexDigits(s string, width int) string {
	s = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(s)), "0x")
	if len(s) < width {
		s = strings.Repeat("0", width-len(s)) + s
	}
	return s
}
