/** The close codes of WebSockets (RFC 6455, 7.4.1) that the service uses. */
export const CLOSE = { normal: 1000, goingAway: 1001, policy: 1008, internal: 1011 } as const;
