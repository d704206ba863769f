export type ActorKind = 'api_key' | 'session' | 'system' | 'webhook' | 'viewer' | 'anonymous';

export interface Actor {
  kind: ActorKind;
  id: string;
  name: string;
}
