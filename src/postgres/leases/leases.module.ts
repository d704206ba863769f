import { Global, Module } from '@nestjs/common';

import { Leases } from './leases.ts';
import { Replica } from './replica.ts';

@Global()
@Module({ providers: [Leases, Replica], exports: [Leases, Replica] })
export class LeasesModule {}
