-- SPDX-License-Identifier: MIT
--- `ridge scale SCRIPT`: a training step measured on a few ranks, and what a model says of more.

local C = require 'ridge.ffi.lib'
local args = require 'ridge.cli.args'
local by_ranks = require 'ridge.cli.by_ranks'
local host = require 'ridge.host'
local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'how a training would scale over processes: ridge scale train.lua --ranks 1..64*2'
M.usage = "ridge scale SCRIPT [--ranks 1..64*2] [options] [-- script's own]"

local SPEC = {
  about = [[
Measures the steps of a script that trains by ridge.dist.DataParallel on a few ranks of this
machine, and predicts them on more: a step is simulated bucket by bucket, from when each is ready on
one rank, what ridge net found of messages, and how much single steps vary. It prints both, the
model's band, and what breaks near-linearity (90 % of the ideal) first. --timeline draws when each
rank computes, waits and transfers, in one more start.

    ridge net -n 2..4 && ridge scale train.lua --ranks 1..64*2 -o scale.png
    ridge scale train.lua --ranks 1..1024*2 --alpha 12 --rate 2.8 --machine 4   # of another network

Predicted numbers say `model`, and are kept as such in the sweep `scale`: they are in no ranking, no
best point, no comparison. Without --alpha and --rate messages are those between processes of this
machine, which no network is as fast as.]],
  rest = 'SCRIPT [-- options of the script]', most = 1,
  { 'ranks', '1..16*2', 'numbers of ranks to predict' },
  { 'measure', { 1, 2 }, 'numbers of ranks to measure; 1 is always among them', integer = true,
    min = 1, max = 512 },
  { 'steps', 40, 'of each start, three of which are left out', integer = true, min = 8,
    max = 100000 },
  { 'starts', 5, 'how often each is started; below 5 there is no interval', integer = true,
    min = 1, max = 100 },
  { 'machine', 0, 'ranks on a machine; 0: as many as this has processors, or as are measured',
    integer = true, min = 0, max = 100000 },
  { 'alpha', 0, 'us of a message, where ridge net does not know it', min = 0, max = 1e9 },
  { 'rate', 0, 'GB/s of a message, likewise', min = 0, max = 1e6 },
  { 'out', '', 'a picture of both: scale.png', short = 'o', writes = 'file' },
  { 'timeline', '', 'a picture of one step by rank, of the most that are measured',
    writes = 'file' },
  stored.AS,
  stored.DB,
}

-- A word of Lua.
local function quoted(text) return ('%q'):format(text):gsub('\\\n', '\\n') end

local SCRIPT = [[
local watched, recipe = require '@WATCHED@', require 'ridge.cli.recipe'
local out, stop = table.remove(arg, 1), {}
local found = watched.watch(@STEPS@, stop)
local status = recipe.run(assert(recipe.find(@SCRIPT@)), { unpack(arg) }, { stop = stop,
  after = function(...) return ... end })
if require('ridge.world').init().rank == 0 then
  local file = assert(io.open(out, 'w'))
  file:write(watched.text(found))
  file:close()
end
return status
]]

-- Start ranks, and what they took; watched: the module that looks at them.
local function launch(watched, ranks, script, steps, own, threads)
  local source = SCRIPT:gsub('@(%u+)@', { STEPS = tostring(steps), SCRIPT = quoted(script),
    WATCHED = watched })
  local read = by_ranks.run(ranks, source, own, { out = 2, env = { OMP_NUM_THREADS = threads } })
  local found = require(watched).read(read)
  if not found then
    error(('%s has made no 8 steps by ridge.dist.DataParallel on %d ranks'):format(script, ranks),
      0)
  end
  return found
end

local function messages(opt, path)
  local model, network = require 'ridge.scaling.model', require 'ridge.scaling.network'
  if opt.alpha > 0 and opt.rate > 0 then
    return { alpha = { med = opt.alpha * 1e3 }, beta = { med = 1 / opt.rate } }, 'as given'
  end
  local store = require 'ridge.store'
  local list = {}
  if require('ridge.store.place').exists(path) then
    local st = store.open(path, 'read')
    list = network.stored(st)
    st:close()
  end
  if #list == 0 then
    error('nothing is known of messages: ridge net -n 2..4, or both of --alpha and --rate', 0)
  end
  return model.hops(list, tonumber(C.rg_processors())), 'as ridge net found between processes here'
end

local function unique(list)
  local seen, out = {}, {}
  for _, n in ipairs(list) do
    if not seen[n] then out[#out + 1] = n end
    seen[n] = true
  end
  table.sort(out)
  return out
end

-- Keep it: what was measured and what was predicted, each as what it is.
local function keep(path, scaling, facts, measured, predicted)
  local ranks = {}
  for n in pairs(measured) do ranks[#ranks + 1] = n end
  for _, step in ipairs(predicted) do ranks[#ranks + 1] = step.ranks end
  local by = {}
  for _, step in ipairs(predicted) do by[step.ranks] = step end
  scaling.sweep(unique(ranks), facts, measured, by):run { db = path, new = true,
    calibrate = false, progress = 'off' }
end

--- Measure, predict, keep, print.
---@param argv string[]
---@return integer status
function M.main(argv)
  local ours, own = args.split(argv)
  return stored.run('scale', SPEC, ours, nil, function(opt, rest)
    if not rest[1] then return stored.fail('scale', 'the script is missing') end
    local found, reason = require('ridge.cli.recipe').find(rest[1])
    if not found then return stored.fail('scale', reason) end
    local ranks = require('ridge.sweep.written').parameters({ 'n=' .. opt.ranks }).n
    for _, n in ipairs(ranks) do
      if type(n) ~= 'number' or n % 1 ~= 0 or n < 1 or n > 1e6 then
        return stored.fail('scale', ('--ranks: %s is no number of ranks'):format(tostring(n)))
      end
    end
    local steps, scaling = require 'ridge.scaling.steps', require 'ridge.scaling.table'
    local path = opt.db ~= '' and opt.db or require('ridge.store').default_path()
    local net, whose = messages(opt, path)
    local to_measure = unique { 1, unpack(opt.measure) }
    local processors = tonumber(C.rg_processors())
    -- as many for each rank, whatever the number of ranks is
    local threads = host.settings.threads or tonumber(os.getenv 'OMP_NUM_THREADS')
      or math.max(1, math.floor(processors / to_measure[#to_measure]))
    local starts = {}
    for i = 1, opt.starts do
      starts[i] = {}
      for _, n in ipairs(to_measure) do
        starts[i][n] = launch('ridge.scaling.steps', n, rest[1], opt.steps, own, threads)
      end
    end
    local measured, one = steps.together(starts, to_measure)
    local spans = opt.timeline ~= '' and require('ridge.scaling.spans').step(launch(
      'ridge.scaling.spans', to_measure[#to_measure], rest[1], opt.steps, own, threads))
    local machine = opt.machine > 0 and opt.machine
      or math.max(math.floor(processors / threads), to_measure[#to_measure])
    local predicted = scaling.predict(measured, one, net, { ranks = unique(ranks),
      processors = processors, machine = machine, threads = threads })
    local facts = { script = rest[1], steps = opt.steps, starts = opt.starts, machine = machine,
      threads = threads, processors = processors, messages = whose, alpha_ns = net.alpha.med,
      beta_ns = net.beta.med }
    keep(path, scaling, facts, measured, predicted)
    stored.show(scaling.rows(measured, predicted, opt.as == 'table' and 4 or nil), { as = opt.as })
    local sentences = scaling.sentences(measured, predicted, facts)
    if opt.as == 'table' then plain.print(sentences, '\n') end
    facts.device = (opt.out ~= '' or spans)
      and require('ridge.sweep.device').lab('cpu').facts().machine.cpu
    if spans then
      stored.picture(require('ridge.scaling.timeline').make(spans, facts), opt.timeline)
    end
    if opt.out ~= '' then
      stored.picture(require('ridge.scaling.picture').make(scaling.rows(measured, predicted), facts,
        sentences), opt.out)
    end
    return 0
  end)
end

return M
