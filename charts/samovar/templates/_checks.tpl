{{/* What the schema cannot say: values that do not go together. Included by the Service, which is always made. */}}
{{- define "samovar.checks" -}}
{{- if not (regexMatch "^[a-z]" (include "samovar.fullname" .)) -}}
{{- fail (printf "fullnameOverride: the Service would be called %s; its name has to start with a letter" (include "samovar.fullname" .)) -}}
{{- end -}}
{{- $autoscaled := ne .Values.autoscaling.kind "none" -}}
{{- $replicas := ternary .Values.autoscaling.maxReplicas .Values.replicaCount $autoscaled | int -}}
{{- $metricsOff := eq (dig "telemetry" "metrics" true .Values.settings) false -}}
{{- if gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas: %v is more than autoscaling.maxReplicas, which is %v" .Values.autoscaling.minReplicas .Values.autoscaling.maxReplicas) -}}
{{- end -}}
{{- with .Values.cache.claim -}}
{{- if and .enabled (not .existing) (gt $replicas 1) (not (has "ReadWriteMany" .accessModes)) -}}
{{- fail (printf "cache.claim.accessModes: %d pods may share the claim, which needs ReadWriteMany" $replicas) -}}
{{- end -}}
{{- end -}}
{{- if and $metricsOff (or (ne .Values.metrics.scrape.kind "none") $autoscaled) (not .Values.externalHosts.enabled) -}}
{{- fail "settings.telemetry.metrics: is false, but metrics.scrape.kind or autoscaling.kind needs the metrics" -}}
{{- end -}}
{{- if and (include "samovar.hasKeys" .) (ne .Values.metrics.scrape.kind "none") (not .Values.metrics.scrape.keySecret.name) -}}
{{- fail "metrics.scrape.keySecret.name: is empty, but the server has keys, so Prometheus needs one of the scope metrics" -}}
{{- end -}}
{{- if and (include "samovar.keysSecret" .) (dig "auth" "keys_file" "" .Values.settings) -}}
{{- fail "settings.auth.keys_file: names a file of keys, but auth.existingSecret or auth.keys brings another; there can be one" -}}
{{- end -}}
{{- $holders := dict -}}
{{- $quotas := dict -}}
{{- range $name, $key := .Values.auth.keys -}}
{{- $digest := lower $key.sha256 -}}
{{- if hasKey $holders $digest -}}
{{- fail (printf "auth.keys: %s and %s have the same sha256; each key needs its own" (get $holders $digest) $name) -}}
{{- end -}}
{{- $_ := set $holders $digest $name -}}
{{- if $key.quota_bytes -}}
{{- $tenant := default $name $key.tenant -}}
{{- $quota := include "samovar.plain" $key.quota_bytes -}}
{{- if ne $quota (get $quotas $tenant | default $quota) -}}
{{- fail (printf "auth.keys: the tenant %s has the quotas %s and %s; let one of its keys say quota_bytes" $tenant (get $quotas $tenant) $quota) -}}
{{- end -}}
{{- $_ := set $quotas $tenant $quota -}}
{{- end -}}
{{- end -}}
{{- $names := list -}}
{{- range .Values.externalHosts.hosts -}}
{{- if has .name $names -}}
{{- fail (printf "externalHosts.hosts: %s is there twice" .name) -}}
{{- end -}}
{{- $names = append $names .name -}}
{{- if ne (contains ":" .address) (eq $.Values.externalHosts.addressType "IPv6") -}}
{{- fail (printf "externalHosts.hosts: the address %s of %s is not %s, which externalHosts.addressType says" .address .name $.Values.externalHosts.addressType) -}}
{{- end -}}
{{- end -}}
{{- end -}}
