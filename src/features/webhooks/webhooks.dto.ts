export interface AcceptedWebhook {
  accepted: true;
  message_id: string;
}

export interface WebhookTokenView {
  token: string;
  /** The address to give to senders that can't set a header. It contains the token. */
  url: string;
  /** The header in which other senders bring the token. */
  header: string;
}
