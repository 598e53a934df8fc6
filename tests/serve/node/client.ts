// Uses the types that openapi-typescript makes of the service's two documents; prints what came back as JSON.
import createClient from "openapi-fetch";
import type { paths as Native } from "./native.js";
import type { paths as Personalizer } from "./personalizer.js";

declare const process: { argv: string[]; exit(code: number): never };

async function main(url: string, key: string): Promise<void> {
  const headers = { Authorization: `Bearer ${key}` };
  const native = createClient<Native>({ baseUrl: url, headers });
  const params = { path: { name: "typescript" } };
  await native.PUT("/v1/bandits/{name}", { params, body: { arms: ["spring"], expire_after: 3600 } });
  const body = { id: "visit 1", context: { country: "AT", basket: { items: 3, tags: ["new"] } } };
  const { data: decision, error } = await native.POST("/v1/bandits/{name}/decide", { params, body });
  if (decision === undefined) throw new Error(error.error.message);
  const chance: number = decision.propensity;
  const reward = { id: decision.id, reward: chance };
  const { data: recorded } = await native.POST("/v1/bandits/{name}/reward", { params, body: reward });
  const wrong = { id: "visit 2", context: {}, arms: ["autumn"] };
  const refused = await native.POST("/v1/bandits/{name}/decide", { params, body: wrong });

  const personalizer = createClient<Personalizer>({ baseUrl: url, headers });
  const actions = [{ id: "pasta", features: [{ taste: "salty", price: 9.5 }] }];
  const { data: ranked } = await personalizer.POST("/personalizer/v1.0/rank", { body: { actions } });
  console.log(
    JSON.stringify({
      arm: decision.arm, status: recorded?.status, refused: refused.error?.error.code, ranked: ranked?.rewardActionId,
    })
  );
}

const [, , url, key] = process.argv;
if (url === undefined || key === undefined) process.exit(2);
await main(url, key);
