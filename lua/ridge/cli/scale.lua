-- SPDX-License-Identifier: MIT
--- `ridge scale SCRIPT`: a training step measured on a few ranks, and what a model says of more.

local C = require 'ridge.ffi.lib'
local args = require 'ridge.cli.args'
local by_ranks = require 'ridge.cli.by_ranks'
local clock = require 'ridge.store.clock'
local host = require 'ridge.host'
local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'
local worlds = require 'ridge.world'

local M = {}

M.summary = 'how a training would scale over processes: ridge scale train.lua --ranks 1..64*2'
M.usage = "ridge scale SCRIPT [--ranks 1..64*2] [options] [-- script's own]"

local SPEC = {
  about = [[
Measures the steps of a script that trains by ridge.dist.DataParallel on a few ranks of this
machine, and predicts them on more: a step is simulated bucket by bucket, from when each is ready on
one rank, what ridge net found of messages, how much single steps vary, and how much longer
computing takes where several ranks are on a machine (from --measure 1,2,4). It prints both, the
model's band, and what breaks near-linearity (90 % of the ideal) first. --timeline draws when each
rank computes, waits and transfers, in one more start. --batch, --bucket-mb and
--compress take several values: each is measured, and predicted, with each.

    ridge net -n 2..4 && ridge scale train.lua --ranks 1..64*2 -o scale.png
    ridge scale train.lua --ranks 1..64*2 --batch 32,64 --bucket-mb 1,25 --compress none,bf16
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
  { 'batch', {}, 'numbers that the script is given as --batch N, each in turn', integer = true,
    min = 1, max = 1e9 },
  { 'bucket_mb', {}, "sizes of buckets in MB, instead of the script's own", min = 1e-6, max = 1e6 },
  { 'compress', {}, "types that gradients are sent in, instead of the script's own",
    choices = { 'none', 'bf16', 'f16' } },
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

local MOST = 1000 -- numbers of ranks: each is simulated some hundred times

-- A word of Lua.
local function quoted(text) return ('%q'):format(text):gsub('\\\n', '\\n') end

local SCRIPT = [[
local watched, recipe = require '@WATCHED@', require 'ridge.cli.recipe'
local out, stop = table.remove(arg, 1), {}
local found = watched.watch(@STEPS@, stop, { bucket_mb = @MB@, compress = @TYPE@ })
local status = recipe.run(assert(recipe.find(@SCRIPT@)), { unpack(arg) }, { stop = stop,
  after = function(...) return ... end })
local world = require('ridge.world').init()
if world.rank == 0 then
  local file = assert(io.open(out, 'w'))
  file:write(watched.text(found, world.library))
  file:close()
end
return status
]]

-- Start ranks, and what they took.
-- watched: the module that looks at them; job: script, steps, own (words), threads
local function launch(watched, ranks, job, setting)
  local source = SCRIPT:gsub('@(%u+)@', { STEPS = tostring(job.steps),
    SCRIPT = quoted(job.script), WATCHED = watched, MB = tostring(setting.bucket_mb),
    TYPE = setting.compress and quoted(setting.compress) or 'nil' })
  local words = { unpack(job.own) }
  if setting.batch then
    words[#words + 1], words[#words + 2] = '--batch', ('%d'):format(setting.batch)
  end
  local read = by_ranks.run(ranks, source, words,
    { out = 2, env = { OMP_NUM_THREADS = job.threads } })
  local found = require(watched).read(read)
  if not found then
    error(('%s has made no 8 steps by ridge.dist.DataParallel on %d ranks'):format(job.script,
      ranks), 0)
  end
  return found
end

-- All settings in each start, on each number of ranks; true where a program played the network, and
-- when each start began.
local function measure(job, list, to_measure, starts)
  local played, times = false, {}
  for _, each in ipairs(list) do each.starts = {} end
  for i = 1, starts do
    times[i] = clock.now_us() / 1e6
    for _, each in ipairs(list) do
      each.starts[i] = {}
      for _, n in ipairs(to_measure) do
        each.starts[i][n] = launch('ridge.scaling.steps', n, job, each.setting)
        played = played or worlds.plays(each.starts[i][n].library)
      end
    end
    local rows = {}
    for k, each in ipairs(list) do
      rows[k] = { setting = each.setting, rows = each.starts[i][1].rows }
    end
    local unheeded = require('ridge.scaling.settings').unheeded(rows)
    if unheeded then
      error(('%s takes no notice of --batch: %s'):format(job.script, unheeded), 0)
    end
  end
  return played, times
end

local function messages(opt, path)
  local model, network = require 'ridge.scaling.model', require 'ridge.scaling.network'
  if opt.alpha > 0 and opt.rate > 0 then
    return { alpha = { med = opt.alpha * 1e3 }, beta = { med = 1 / opt.rate } }, 'as given'
  end
  local store = require 'ridge.store'
  local list, elsewhere = {}, 0
  if require('ridge.store.place').exists(path) then
    local st = store.open(path, 'read')
    list, elsewhere = network.stored(st)
    st:close()
  end
  if #list == 0 then
    error(('nothing is known of messages%s: ridge net -n 2..4, or both of --alpha and --rate')
      :format(network.elsewhere(elsewhere)), 0)
  end
  return model.hops(list, tonumber(C.rg_processors())), 'as ridge net found between processes here'
end

-- What is wrong with the files of pictures: said before the work.
local function unwritable(opt)
  for _, name in ipairs { 'out', 'timeline' } do
    if opt[name] ~= '' and not opt[name]:lower():find '%.png$' then
      return ('--%s: figures are PNG files, so the path must end in .png'):format(name)
    end
  end
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
local function keep(path, given, facts, list)
  local ranks = {}
  for n in pairs(list[1].measured) do ranks[#ranks + 1] = n end
  for _, step in ipairs(list[1].predicted) do ranks[#ranks + 1] = step.ranks end
  require('ridge.scaling.table').sweep(unique(ranks), given, facts, list):run { db = path,
    new = true, calibrate = false, progress = 'off' }
end

-- Values of settings that are given; nil and why not.
local function settings_of(opt)
  local given = {}
  for _, name in ipairs(require('ridge.scaling.settings').NAMES) do
    local seen = {}
    for _, value in ipairs(opt[name]) do
      if seen[value] then
        return nil, ('--%s: %s stands there twice'):format(name:gsub('_', '-'), value)
      end
      seen[value] = true
    end
    if #opt[name] > 0 then given[name] = opt[name] end
  end
  return given
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
    if #ranks > MOST then
      return stored.fail('scale', ('--ranks: %d numbers; at most %d, as 1..%d*2 has few'):format(
        #ranks, MOST, 2 ^ 20))
    end
    for _, n in ipairs(ranks) do
      if type(n) ~= 'number' or n % 1 ~= 0 or n < 1 or n > 1e6 then
        return stored.fail('scale', ('--ranks: %s is no number of ranks'):format(tostring(n)))
      end
    end
    local wrong = unwritable(opt)
    if wrong then return stored.fail('scale', wrong) end
    local given, why = settings_of(opt)
    if not given then return stored.fail('scale', why) end
    local steps, scaling = require 'ridge.scaling.steps', require 'ridge.scaling.table'
    local path = opt.db ~= '' and opt.db or require('ridge.store').default_path()
    local net, whose = messages(opt, path)
    local to_measure = unique { 1, unpack(opt.measure) }
    local most = to_measure[#to_measure]
    local processors = tonumber(C.rg_processors())
    -- as many for each rank, whatever the number of ranks is
    local threads = host.settings.threads or tonumber(os.getenv 'OMP_NUM_THREADS')
      or math.max(1, math.floor(processors / most))
    local machine = opt.machine > 0 and opt.machine
      or math.max(math.floor(processors / threads), most)
    local job = { script = rest[1], steps = opt.steps, own = own, threads = threads }
    local all, axes = require('ridge.scaling.settings').all(given)
    local list = {}
    for i, setting in ipairs(all) do list[i] = { setting = setting } end
    local played, times = measure(job, list, to_measure, opt.starts)
    local around = { times = times, source = require('ridge.sweep.minutes').here(path) }
    local fitted = { unpack(to_measure, 2) }
    for _, each in ipairs(list) do
      local one
      each.measured, one = steps.together(each.starts, to_measure, around)
      each.predicted, each.crowding = scaling.predict(each.measured, one, net, {
        ranks = unique(ranks), processors = processors, machine = machine, threads = threads,
        fitted = fitted })
    end
    local spans = opt.timeline ~= '' and require('ridge.scaling.spans').step(launch(
      'ridge.scaling.spans', most, job, all[1]))
    local facts = { script = rest[1], steps = opt.steps, starts = opt.starts, machine = machine,
      threads = threads, processors = processors, messages = whose, alpha_ns = net.alpha.med,
      beta_ns = net.beta.med, fitted = fitted[1] ~= nil,
      simulated = played or net.simulated or false }
    keep(path, given, facts, list)
    stored.show(scaling.all(list, axes, opt.as == 'table' and 4 or nil, played), { as = opt.as })
    local sentences = scaling.sentences(list, facts)
    if opt.as == 'table' then plain.print(sentences, '\n') end
    facts.played = played
    facts.device = (opt.out ~= '' or spans)
      and require('ridge.sweep.device').lab('cpu').facts().machine.cpu
    if spans then
      stored.picture(require('ridge.scaling.timeline').make(spans, facts), opt.timeline)
    end
    if opt.out ~= '' then
      stored.picture(require('ridge.scaling.picture').make(list, axes, facts, sentences), opt.out)
    end
    return 0
  end)
end

return M
