// An issuer on a port of loopback whose people have any password: `node issuer.mjs PORT SETTINGS`, with clients and people in JSON.
import { Provider } from "oidc-provider";

const [port, settings] = process.argv.slice(2);
const { clients, people } = JSON.parse(settings);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients,
  claims: { openid: ["sub", "preferred_username", "groups"], profile: [], email: ["email", "email_verified"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["a key of tests"] },
  features: { devInteractions: { enabled: true }, deviceFlow: { enabled: true } },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...people[id] }) }),
  ttl: { Interaction: 600, Session: 600, Grant: 600, DeviceCode: 600, AuthorizationCode: 60, AccessToken: 600, IdToken: 600 },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
