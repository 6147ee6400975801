package controller

import (
	"maps"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	v1 "gpu-operator/api/v1"
	"gpu-operator/internal/gate"
	"gpu-operator/internal/status"
)

// State is what the two reconcilers share: the policy in force with its phase, and
// a summary of every node. It holds nothing that cannot be read again.
type State struct {
	mu     sync.Mutex
	policy *v1.ClusterPolicy
	phase  gate.Phase
	fleet  status.Fleet
	gone   types.UID // the policy that was removed last: a cache may still show it

	// changed is told, without waiting, that the policy's status must be computed again.
	changed chan<- struct{}
}

// NewState returns an empty state; changed gets a token when a node's summary
// changed and is not asked to hold more than one.
func NewState(changed chan<- struct{}) *State {
	return &State{fleet: status.Fleet{}, changed: changed}
}

// Policy is the policy in force, nil when there is none.
func (s *State) Policy() (*v1.ClusterPolicy, gate.Phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.policy, s.phase
}

// SetPolicy puts a policy in force (nil: none) and reports whether nodes must be
// looked at again.
func (s *State) SetPolicy(p *v1.ClusterPolicy, phase gate.Phase) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := (p == nil) == (s.policy == nil) && phase == s.phase &&
		(p == nil || p.UID == s.policy.UID && p.Generation == s.policy.Generation)
	s.policy, s.phase = p, phase
	return !same
}

// Gone takes a removed policy out of force.
func (s *State) Gone(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.policy, s.phase, s.gone = nil, gate.Normal, uid
}

// IsGone reports whether a policy's removal was finished.
func (s *State) IsGone(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone == uid
}

// Learn records a node's summary.
func (s *State) Learn(node string, n status.Summary) {
	s.mu.Lock()
	same := reflect.DeepEqual(s.fleet[node], n)
	s.fleet[node] = n
	s.mu.Unlock()
	if !same {
		s.tell()
	}
}

// Forget drops a node that is gone.
func (s *State) Forget(node string) {
	s.mu.Lock()
	_, had := s.fleet[node]
	delete(s.fleet, node)
	s.mu.Unlock()
	if had {
		s.tell()
	}
}

// Fleet is a copy of all summaries.
func (s *State) Fleet() status.Fleet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.fleet)
}

// tell wakes the policy's reconciler; a wake that is pending is enough.
func (s *State) tell() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}
