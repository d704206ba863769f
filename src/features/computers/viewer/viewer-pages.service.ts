import { Injectable } from '@nestjs/common';

import { Clock } from '../../../kernel/clock.ts';
import { Config } from '../../../kernel/config/config.ts';
import { ProblemError } from '../../../kernel/errors/problem-error.ts';
import type { RequestContext } from '../../../http/server/request-context.ts';
import { type Asset, ViewerAssets } from './viewer-assets.ts';
import { ViewerLinks } from './viewer-links.service.ts';
import { ViewerRecords } from './viewer-records.service.ts';
import { openSession } from './viewers.decider.ts';

/** The time for which browsers may cache the files of the page, in seconds. Their addresses contain their version. */
const CACHED_SECONDS = 31_536_000;

interface PageState {
  status: number;
  /** The name of the state for the page: `open`, `invalid`, or the reason why the session has ended. */
  stateName: string;
}

/** Serves the viewer page. */
@Injectable()
export class ViewerPages {
  private readonly assets = new ViewerAssets();

  constructor(
    private readonly config: Config,
    private readonly clock: Clock,
    private readonly links: ViewerLinks,
    private readonly records: ViewerRecords,
  ) {}

  /**
   * Returns the page of a link. Opening it changes nothing, since programs that show previews open links, too. A link that can't be used
   * gets the page as well, which says so.
   */
  async page(token: string, call: RequestContext): Promise<string> {
    const { status, stateName } = await this.stateOf(token);
    call.setStatus(status);
    for (const [name, value] of Object.entries(this.headers())) call.setHeader(name, value);
    return this.assets.page(stateName);
  }

  /** Returns a file of the page. Throws `not_found`. */
  file(version: string, name: string, call: RequestContext): Asset {
    const asset = this.assets.find(version, name);
    if (asset === null) throw new ProblemError('not_found', 'There is nothing at this address.');
    call.setHeader('cache-control', `public, max-age=${CACHED_SECONDS}, immutable`);
    call.setHeader('content-type', asset.type);
    call.setHeader('content-length', String(asset.bytes.length));
    call.setHeader('cross-origin-resource-policy', 'same-origin');
    return asset;
  }

  private async stateOf(token: string): Promise<PageState> {
    const link = this.links.read(token);
    if (link === null) return { status: 401, stateName: 'invalid' };
    try {
      openSession(await this.records.load(link.computerId), link.sessionId, this.clock.now());
      return { status: 200, stateName: 'open' };
    } catch (error) {
      if (!(error instanceof ProblemError) || error.code !== 'session_closed') throw error;
      return { status: 410, stateName: String(error.facts.members?.reason) };
    }
  }

  private headers(): Record<string, string> {
    const ancestors = this.config.viewerFrameAncestors;
    const policy = [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "img-src 'self' data: blob:",
      "connect-src 'self'",
      "base-uri 'none'",
      "form-action 'none'",
      `frame-ancestors ${ancestors.length === 0 ? "'none'" : ancestors.join(' ')}`,
    ];
    return {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy.join('; '),
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      'cross-origin-opener-policy': 'same-origin',
      'x-robots-tag': 'noindex',
    };
  }
}
