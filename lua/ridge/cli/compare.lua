-- SPDX-License-Identifier: MIT
--- `ridge compare`: stored results of two databases, unpaired; or points of one sweep, by passes.

local args = require 'ridge.cli.args'
local stored = require 'ridge.cli.stored'
local verdicts = require 'ridge.cli.verdicts'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'stored results of two databases, unpaired: ridge compare main.db pr.db --match-all'
M.usage = 'ridge compare A.db B.db --match-all [options]; '
  .. 'ridge compare SWEEP --a impl=x --b impl=y [options]'

local SPEC = {
  about = [[
Holds stored results against each other: b against a, unpaired, so whatever the machine did between
the two is part of the difference. Faster or slower is said only across the same environment (builds
may differ) and when the machine's own speed stayed within 2 %; else: open, run `ridge ab`.

Where another machine measured b, the ratio is one of machines, with all in which they differ, and
an anchor that both have measured says how far they are apart. Where points of one side are of
unlike machines, it is refused: --where asks for those of one, --mixed for all.

    ridge compare main.db pr.db --match-all --fail-on 'slower>2%'

With --a and --b the points of one sweep: their ratio is formed in each pass that both have, so what
the machine did in a pass falls on both.

    ridge compare widths --a dtype=f32 --b dtype=bf16

Times are medians (med), what a user gets on this machine as it is; --quiet takes those of its fast
state.

Exit status: 0; 3 when --fail-on holds for a pair; 4 with --strict when a pair is open.]],
  rest = 'A.db B.db | SWEEP',
  { 'match_all', false, 'pairs agree in all parameters' },
  { 'match', {}, 'pairs agree in these parameters' },
  { 'sweep', '', 'only the sweep of this name' },
  { 'a', {}, 'in one sweep: parameters of a, name=value,...' },
  { 'b', {}, 'parameters of b' },
  { 'phases', {}, 'in one sweep: only these' },
  { 'quiet', false, "by the time in the machine's fast state" },
  { 'where', '', "in one sweep: only points for which this holds: 'machine = \"m1a2b3c4\"'" },
  { 'mixed', false, 'also points of unlike machines, each verdict one of its two' },
  { 'db', '', 'of the sweep; RIDGE_DB or results/ridge.db when left out' },
  { 'margin', 0.01, 'what is less is not called', min = 0, max = 1 },
  { 'fail_on', '', "'slower', 'slower>2%', 'faster' ...: status 3 when a pair is that" },
  { 'strict', false, 'status 4 when a pair stays open' },
  { 'as', 'text', 'what is printed', choices = { 'text', 'json' } },
}

local function fail(reason) return stored.fail('compare', reason) end

local function print_json(results)
  local canonical = require 'ridge.store.canonical'
  for _, found in ipairs(results) do
    if found.ci_hi == math.huge then found.ci_hi = nil end -- JSON has no infinity, and no nan
    if found.ratio ~= found.ratio then found.ratio = nil end
  end
  plain.print(canonical.encode { version = 1, comparisons = canonical.list(results) }, '\n')
end

local function print_text(results)
  local space = require 'ridge.sweep.space'
  verdicts.print(results, function(found)
    return (found.sweep .. ' ' .. space.label(found.match)):gsub('%s+$', '')
  end, function(found)
    local how = found.design .. ', ' .. found.time
    if found.machines then
      local m = found.machines
      how = ('%s: %s against %s%s'):format(how, plain.line(m.b), plain.line(m.a),
        #m.differ > 0 and ('; %s differ%s too'):format(table.concat(m.differ, ', '),
          #m.differ == 1 and 's' or '') or '')
      return found.reason and how .. '; ' .. found.reason or how
    end
    return found.reason and ('%s; %s: run ridge ab'):format(how, found.reason) or how
  end)
end

-- Points of one sweep.
local function inside(opt, name)
  local sides = {}
  for _, side in ipairs { 'a', 'b' } do
    local params, why = verdicts.params(opt[side], side)
    if not params then return nil, why end
    sides[side] = params
  end
  local store = require 'ridge.store'
  local st = store.open(opt.db ~= '' and opt.db or store.default_path(), 'read')
  local ok, found, told = pcall(require('ridge.sweep.compare').inside, st, name, { a = sides.a,
    b = sides.b, match = #opt.match > 0 and opt.match or nil, margin = opt.margin,
    phases = #opt.phases > 0 and opt.phases or nil, time = opt.quiet and 'quiet' or 'med',
    where = opt.where ~= '' and opt.where or nil, mixed = opt.mixed })
  st:close()
  if not ok then error(found, 0) end
  return found, told
end

local function note(told) if told then plain.note(told, '\n') end end

--- Compare and print.
---@param argv string[]
---@return integer status
function M.main(argv)
  local opt, rest = args.read(SPEC, argv)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'compare'), '\n')
    return 0
  elseif not opt then
    return fail(rest)
  end
  local condition, wrong = verdicts.condition(opt.fail_on)
  if not condition then return fail(wrong) end
  if #opt.a + #opt.b > 0 then
    if #rest ~= 1 then return fail '--a and --b compare points of one sweep: name it' end
    local found, why = inside(opt, rest[1])
    if not found then return fail(why) end
    if opt.as == 'json' then print_json(found) else print_text(found) end
    note(why)
    return verdicts.status(found, condition, opt.strict)
  end
  if #rest ~= 2 then return fail 'two databases are compared, or a sweep with --a and --b' end
  if opt.match_all == (#opt.match > 0) then
    return fail 'say in what pairs agree: --match-all, or --match with names'
  end
  if opt.where ~= '' then return fail '--where is of one sweep, with --a and --b' end
  local results, alone, apart = require('ridge.sweep.compare').databases(rest[1], rest[2], {
    match = not opt.match_all and opt.match or nil, margin = opt.margin,
    sweep = opt.sweep ~= '' and opt.sweep or nil, time = opt.quiet and 'quiet' or 'med',
    mixed = opt.mixed })
  if opt.as == 'json' then print_json(results) else print_text(results) end
  note(apart)
  if alone > 0 then plain.note(('%d timings are in one of them only\n'):format(alone)) end
  return verdicts.status(results, condition, opt.strict)
end

return M
