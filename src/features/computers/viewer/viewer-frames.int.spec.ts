import { Browser, ViewerFixture } from '../../../../test/support/viewer-fixture.ts';

let bed: ViewerFixture;
beforeAll(async () => {
  bed = await ViewerFixture.start({
    MOORING_BASE_URL: 'https://mooring.example/here/',
    MOORING_VIEWER_FRAME_ANCESTORS: 'https://App.example, https://other.example:8443',
  });
});
afterAll(() => bed?.server.close());

describe('a link of a service whose pages may be framed', () => {
  it('can be framed by the operator’s allowed pages only, not by those of public agents', async () => {
    const { path } = await bed.session(bed.computer());
    const page = await bed.server.request('GET', path.replace('/here', ''));
    expect(page.headers.get('content-security-policy')).toMatch(/; frame-ancestors https:\/\/app\.example https:\/\/other\.example:8443$/);
  });

  it('is made for the address of the service, whose origin alone gets tickets', async () => {
    const computerId = bed.computer();
    const { json } = await bed.ask('POST', `/api/v1/computers/${computerId}/viewer`, {});
    expect(json.url).toMatch(/^https:\/\/mooring\.example\/here\/viewer\//);
    const path = new URL(json.url as string).pathname.replace('/here', '');
    for (const origin of [bed.server.url, 'https://app.example'])
      expect((await new Browser(bed.server, origin).ticket(path)).json.code).toBe('origin_not_allowed');
    expect((await new Browser(bed.server, 'https://mooring.example').ticket(path)).status).toBe(201);
  });

  it('has a cookie that a browser also keeps in a frame of another site, for https alone', async () => {
    const { path } = await bed.session(bed.computer());
    const { headers } = await new Browser(bed.server, 'https://mooring.example').ticket(path.replace('/here', ''));
    const cookie = headers.get('set-cookie') ?? '';
    expect(cookie).toContain(`; Path=${path};`);
    expect(cookie).toMatch(/; HttpOnly; SameSite=None; Partitioned; Secure$/);
  });
});
