/** The settings of another installation, which the check must not use. */
const ofOthers =
  /^(PORT|HOST|NODE_ENV|NODE_OPTIONS|DATABASE_URL|EVENT_STORE|EVENTSTORE_.*|MOORING_(DATA_DIR|BASE_URL|MASTER_KEY|ADMIN_.*|AGENT_DOMAIN|ALLOWED_ORIGINS|RUNTIME|SAMPLE_AGENT|METRICS_.*|TRUSTED_PROXIES|OPEN_REGISTRATION))$/;

/** Returns the operator's environment without the settings of another installation, and with the walk's own. */
export function serviceEnvironment(
  operator: Record<string, string | undefined>,
  own: Record<string, string>,
): Record<string, string | undefined> {
  const kept = Object.entries(operator).filter(([name]) => !ofOthers.test(name));
  const lists = ['MOORING_ALLOW_PRIVATE_SOURCES', 'MOORING_AGENT_EGRESS_PRIVATE', 'MOORING_SHARED_IMAGES'];
  // The operator's own entries stay in force in addition to the check's.
  const joined = lists.flatMap((name) => {
    const values = [operator[name], own[name]].filter((value) => value !== undefined && value !== '');
    return values.length === 0 ? [] : [[name, values.join(',')]];
  });
  return { ...Object.fromEntries(kept), ...own, ...(Object.fromEntries(joined) as Record<string, string>) };
}
