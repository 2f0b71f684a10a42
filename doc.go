// Package idem makes an effect happen at most once per (tenant, operation, key).
package idem
