import { defineEvent, type EventsOf } from '../../../eventsourcing/event-store/event-definition.ts';

/** A viewer controls the desktop, or only sees it. */
export type ViewerMode = 'control' | 'view';

/** The reason why a session can't be used any more. */
export type ViewerEnd =
  | 'closed'
  | 'expired'
  /** Its computer went to sleep, or failed. */
  | 'asleep'
  /** Its computer is deleted. */
  | 'deleted'
  /** The API key that created its link was revoked, or has expired. */
  | 'revoked';

type OfSession = { computer_id: string; session_id: string };

/** The viewer sessions of computers. What they type, click and copy is not recorded. */
export const viewerEvents = {
  ViewerCreated: defineEvent<
    OfSession & { account_id: string; mode: ViewerMode; exclusive: boolean; label: string | null; expires_at: string }
  >()('ViewerCreated', ({ mode, exclusive, expires_at }) =>
    mode === 'view'
      ? `Made a link with which one may see the computer until ${expires_at}`
      : `Made a link with which one may control the computer until ${expires_at}${exclusive ? ', nobody else meanwhile' : ''}`,
  ),
  ViewerConnected: defineEvent<OfSession & { connection_id: string; mode: ViewerMode }>()('ViewerConnected', ({ mode }) =>
    mode === 'view' ? 'Somebody sees the computer' : 'Somebody sees and controls the computer',
  ),
  ViewerDisconnected: defineEvent<OfSession & { connection_id: string; seconds: number }>()(
    'ViewerDisconnected',
    ({ seconds }) => `Somebody saw the computer for ${seconds} s`,
  ),
  ViewerClosed: defineEvent<OfSession & { reason: ViewerEnd }>()('ViewerClosed', ({ reason }) => SENTENCES[reason]),
};

const SENTENCES: Record<ViewerEnd, string> = {
  closed: 'The link to the computer was closed',
  expired: 'The link to the computer expired',
  asleep: 'The link to the computer was closed, because the computer went to sleep',
  deleted: 'The link to the computer was closed, because the computer was deleted',
  revoked: 'The link to the computer was closed, because the API key that it was made with was revoked or has expired',
};

export type ViewerEvent = EventsOf<typeof viewerEvents>;
