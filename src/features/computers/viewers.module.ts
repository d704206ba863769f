import { type DynamicModule, Module } from '@nestjs/common';

import { Projections } from '../../eventsourcing/projections/projections.ts';
import { OpenViewers } from './viewer/open-viewers.service.ts';
import { ViewerBrowsers } from './viewer/viewer-browsers.service.ts';
import { ViewerConnections } from './viewer/viewer-connections.service.ts';
import { ViewerKeysSaga } from './viewer/viewer-keys.saga.ts';
import { ViewerLinks } from './viewer/viewer-links.service.ts';
import { ViewerPagesController } from './viewer/viewer-pages.controller.ts';
import { ViewerPages } from './viewer/viewer-pages.service.ts';
import { ViewerRecords } from './viewer/viewer-records.service.ts';
import { ListSessionsHandler, viewerSessionsProjection } from './viewer/viewer-sessions.projection.ts';
import { ViewerSessions } from './viewer/viewer-sessions.service.ts';
import { ViewerSockets } from './viewer/viewer-sockets.service.ts';
import { ViewerVisits } from './viewer/viewer-visits.service.ts';
import { ViewerWatch } from './watch/viewer-watch.service.ts';
import { ViewersController } from './viewer/viewers.controller.ts';
import { ViewersSaga } from './viewer/viewers.saga.ts';

/** The viewer sessions of computers. */
@Module({
  controllers: [ViewersController, ViewerPagesController],
  providers: [
    ListSessionsHandler,
    OpenViewers,
    ViewerBrowsers,
    ViewerConnections,
    ViewerKeysSaga,
    ViewerLinks,
    ViewerPages,
    ViewerRecords,
    ViewerSessions,
    ViewersSaga,
    ViewerSockets,
    ViewerVisits,
    ViewerWatch,
  ],
})
export class ViewersModule {
  constructor(projections: Projections) {
    projections.register(viewerSessionsProjection);
  }

  /** Returns the module on the desktops that the other module provides, as `ViewedDesktops`. */
  static of(desktops: DynamicModule['module'] | DynamicModule): DynamicModule {
    return { module: ViewersModule, imports: [desktops] };
  }
}
