package check

import (
	"gpu-operator/api/v1alpha1"
	"gpu-operator/internal/facts"
)

// ledgerInvalid: what we changed on this host is not known.
func ledgerInvalid(n facts.Node) *v1alpha1.Finding {
	if n.LedgerError == "" {
		return nil
	}
	return &v1alpha1.Finding{
		Reason: v1alpha1.FindingLedgerInvalid, Severity: v1alpha1.SeverityError, Evidence: n.LedgerError,
		Remedy: "restore the ledger or remove it by hand; nothing is changed on this host until then",
	}
}
