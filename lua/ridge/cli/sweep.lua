-- SPDX-License-Identifier: MIT
--- `ridge sweep RECIPE`: run the sweep of a recipe with other values, conditions and workers than
--- it says itself.

local args = require 'ridge.cli.args'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'run the sweep of a recipe: ridge sweep mlp.lua -P batch=1..256*2 -j 4'
M.usage = "ridge sweep RECIPE [-P name=values] [--where CONDITION] [options] [-- recipe's own]"

local SPEC = {
  about = [[
Runs the sweep that a recipe declares. The same command again goes on where it was; other values
under the same name are an error that says what changed, and --new starts another beside it.

    ridge sweep mlp.lua -P batch=1..1024*2 -P width=128..4096+128 --where 'batch*width <= 2^20' -j 4
    ridge sweep mlp.lua --dry-run
    ridge sweep mlp.lua -P lr=~log:1e-4..1e-1 --samples 50 --budget 2h
    ridge sweep mlp.lua --shard 2/8 --db part2.db       # then ridge merge all.db part*.db

Values: 64   1,8,32   {relu,gelu}   1..10   128..512+128 (steps)   1..256*2 (factors)
        0..1/5 (five numbers)   log:1e-4..1e-1/9   probe:64..4096 (tile edges and beside them)
        ~1..100   ~log:1e-4..1e-1 (drawn at random, with --samples)

A recipe may run its sweep itself or return it. What stands after -- are the recipe's own options.
Exit status: 0; 2 when points failed; 130 after Ctrl-C, with everything saved.]],
  rest = 'RECIPE [-- options of the recipe]',
  { 'param', {}, 'values of a parameter', short = 'P', each = true },
  { 'where', '', "keep combinations for which this holds: 'batch*width <= 2^20'" },
  { 'samples', 0, 'so many random points; 0: the whole grid', integer = true, min = 0, max = 1e6 },
  { 'dry_run', false, 'say what would be measured, and measure nothing' },
  { 'jobs', 1, 'worker processes; they never time at once', short = 'j', integer = true, min = 1,
    max = 1024 },
  { 'budget', '', 'stop after 90s, 15m, 2h' },
  { 'shard', '', '2/8: the second of eight parts; auto/8: that of this task of an array job' },
  { 'quick', false, 'five passes, to 3 %' },
  { 'rigorous', false, 'twelve passes and more, to 0.5 %' },
  { 'isolate', 'auto', 'a process for each point', choices = { 'auto', 'always', 'never' } },
  { 'new', false, 'start another sweep beside one of the same name' },
  { 'reuse', true, 'measure again what another space of this recipe has measured' },
  { 'choices', true, 'take no path that ridge autotune found' },
  { 'calibrate', true, 'take no calibration of this machine, not even a stored one' },
  { 'progress', '', 'what is shown meanwhile; what suits the terminal when left out',
    choices = { '', 'live', 'bar', 'plain', 'off' } },
  stored.DB,
}

M.SPEC = SPEC

local function set(text) return text ~= '' and text or nil end

--- What is changed of the recipe's sweep.
---@param opt table what was read by SPEC
---@return table given of ridge.sweep.override
function M.changes(opt)
  local space = require('ridge.sweep.written').parameters(opt.param)
  local typed = {}
  local function say(...) for _, word in ipairs { ... } do typed[#typed + 1] = word end end
  for _, text in ipairs(opt.param) do say('-P', text) end
  if opt.where ~= '' then say('--where', opt.where) end
  if opt.samples > 0 then say('--samples', ('%d'):format(opt.samples)) end
  if opt.rigorous then say '--rigorous' elseif opt.quick then say '--quick' end
  return { space = next(space) and space or nil, where = set(opt.where),
    samples = opt.samples > 0 and opt.samples or nil,
    level = opt.rigorous and 'rigorous' or opt.quick and 'quick' or nil,
    typed = typed[1] and typed }
end

-- What is changed of how it runs: what was said and nothing else, or a default of the command line
-- would stand above the recipe's own word.
local function manner(opt, said)
  local run = { budget = set(opt.budget), shard = set(opt.shard), db = set(opt.db),
    progress = set(opt.progress) }
  if said.jobs then run.workers = opt.jobs end
  for _, name in ipairs { 'isolate', 'new', 'reuse', 'choices', 'calibrate' } do
    if said[name] then run[name] = opt[name] end
  end
  return run
end

-- What is wrong with them is said before a recipe measures anything.
local function check_part(opt)
  local part = require 'ridge.sweep.part'
  part.seconds(set(opt.budget))
  part.shard(set(opt.shard))
end

local function dry(sw, opt)
  local facts = sw:dry_run(opt)
  plain.print(('%s: %s\n'):format(sw.name, facts.text))
end

--- Run the sweep of the recipe that is named.
---@param argv string[]
---@return integer status
function M.main(argv)
  local ours, own = args.split(argv)
  local opt, rest, said = args.read(SPEC, ours)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'sweep'), '\n')
    return 0
  end
  if not opt then return stored.fail('sweep', rest) end
  if not rest[1] then return stored.fail('sweep', 'a recipe is missing') end
  if rest[2] then
    return stored.fail('sweep', ("'%s' is too much; options of the recipe stand after --"):format(
      rest[2]))
  end
  if opt.quick and opt.rigorous then
    return stored.fail('sweep', 'it is one of --quick and --rigorous')
  end
  local recipe, override = require 'ridge.cli.recipe', require 'ridge.sweep.override'
  local found, reason = recipe.find(rest[1])
  if not found then return stored.fail('sweep', reason) end
  check_part(opt)
  override.given, override.run = M.changes(opt), manner(opt, said)
  local ran, failed, stop = false, 0, {}
  function override.ended(summary) ran, failed = true, failed + summary.failed end
  if opt.dry_run then
    function override.instead(sw, given)
      ran = true
      dry(sw, given)
      error(stop, 0)
    end
  end
  local status = recipe.run(found, own, { stop = stop, after = function(result)
    local sweep = require 'ridge.sweep'
    if not ran and sweep.is(result) then result:run() end
  end })
  if status ~= 0 then return status end
  if not ran then
    return stored.fail('sweep', ('the recipe %s neither runs a sweep nor returns one'):format(
      rest[1]))
  end
  return failed > 0 and 2 or 0
end

return M
