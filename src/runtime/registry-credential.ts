/** The user name and password for a registry, in plain text. They must not enter a log line or an error. */
export interface RegistryCredential {
  username: string;
  password: string;
}
