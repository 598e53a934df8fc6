// Drives @azure-rest/ai-personalizer (v1.1-preview.3): what applications call, and three calls that are gone; prints statuses and bodies as JSON.
const createClient = require("@azure-rest/ai-personalizer").default;
const { AzureKeyCredential } = require("@azure/core-auth");

const [url, key] = process.argv.slice(2);
const actions = [
  { id: "pasta", features: [{ taste: "salty" }] },
  { id: "ice cream", features: [{ taste: "sweet" }] },
];

async function main() {
  const client = createClient(url, new AzureKeyCredential(key), { allowInsecureConnection: true });
  const out = {};
  const note = async (name, call) => {
    const answer = await call;
    out[name] = { status: Number(answer.status), body: answer.body };
  };
  const event = "rest/ä 1";
  const rank = { actions, contextFeatures: [{ t: "morning" }], eventId: event, deferActivation: true };
  await note("rank", client.path("/rank").post({ body: rank }));
  await note("again", client.path("/rank").post({ body: rank }));
  await note("reward", client.path("/events/{eventId}/reward", event).post({ body: { value: 1 } }));
  await note("activate", client.path("/events/{eventId}/activate", event).post());
  await note("bad", client.path("/events/{eventId}/reward", event).post({ body: { value: 3 } }));
  await note("missing", client.path("/events/{eventId}/reward", "never").post({ body: { value: 1 } }));
  const slots = [{ id: "s1", baselineAction: "pasta" }, { id: "s2", baselineAction: "ice cream" }];
  await note("slots", client.path("/multislot/rank").post({ body: { actions, slots, eventId: "m1" } }));
  const earned = { reward: [{ slotId: "s1", value: 1 }, { slotId: "s2", value: 0 }] };
  await note("slot reward", client.path("/multislot/events/{eventId}/reward", "m1").post({ body: earned }));
  await note("slot activate", client.path("/multislot/events/{eventId}/activate", "m1").post());
  await note("service", client.path("/configurations/service").get());
  await note("policy", client.path("/configurations/policy").delete());
  await note("evaluations", client.path("/evaluations").get());
  console.log(JSON.stringify(out));
}

main();
