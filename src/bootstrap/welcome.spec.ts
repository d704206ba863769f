import { welcome } from './welcome.ts';

const made = { url: 'http://127.0.0.1:8080', email: 'admin@localhost', password: 'canary-password', api_key: 'mk_x', agent_id: null };

describe('what a first start prints', () => {
  it('shows the password that was generated for the operator', () => {
    expect(welcome(made, null)).toContain('canary-password');
  });

  it('does not show the password that the operator chose', () => {
    const shown = welcome(made, 'canary-password');
    expect(shown).not.toContain('canary-password');
    expect(shown).toContain('MOORING_ADMIN_PASSWORD');
  });
});
