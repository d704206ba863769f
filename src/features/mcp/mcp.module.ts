import { Module } from '@nestjs/common';

import { McpController } from './mcp.controller.ts';
import { Mcp } from './mcp.service.ts';
import { ToolCalls } from './tool-calls.service.ts';
import { ToolCatalogue } from './tool-catalogue.service.ts';

@Module({ controllers: [McpController], providers: [Mcp, ToolCalls, ToolCatalogue] })
export class McpModule {}
