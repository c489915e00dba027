-- SPDX-License-Identifier: MIT
--- `ridge compare`: stored results of two databases, unpaired.

local args = require 'ridge.cli.args'
local stored = require 'ridge.cli.stored'
local verdicts = require 'ridge.cli.verdicts'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'stored results of two databases, unpaired: ridge compare main.db pr.db --match-all'
M.usage = 'ridge compare A.db B.db --match-all [options]'

local SPEC = {
  about = [[
Holds stored results against each other: b against a, unpaired, so whatever the machine did between
the two is part of the difference. Faster or slower is said only across the same environment (builds
may differ) and when the machine's own speed stayed within 2 %; else: open, run `ridge ab`.

    ridge compare main.db pr.db --match-all --fail-on 'slower>2%'

Exit status: 0; 3 when --fail-on holds for a pair; 4 with --strict when a pair is open.]],
  rest = 'A.db B.db',
  { 'match_all', false, 'pairs agree in all parameters' },
  { 'match', {}, 'pairs agree in these parameters' },
  { 'sweep', '', 'only the sweep of this name' },
  { 'margin', 0.01, 'what is less is not called', min = 0, max = 1 },
  { 'fail_on', '', "'slower', 'slower>2%', 'faster' ...: status 3 when a pair is that" },
  { 'strict', false, 'status 4 when a pair stays open' },
  { 'as', 'text', 'what is printed', choices = { 'text', 'json' } },
}

local function fail(reason) return stored.fail('compare', reason) end

local function print_json(results)
  local canonical = require 'ridge.store.canonical'
  for _, found in ipairs(results) do
    if found.ci_hi == math.huge then found.ci_hi = nil end -- JSON has no infinity
  end
  plain.print(canonical.encode { version = 1, comparisons = canonical.list(results) }, '\n')
end

local function print_text(results)
  local space = require 'ridge.sweep.space'
  verdicts.print(results, function(found)
    return (found.sweep .. ' ' .. space.label(found.match)):gsub('%s+$', '')
  end, function(found)
    return found.reason and ('unpaired; %s: run ridge ab'):format(found.reason) or 'unpaired'
  end)
end

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
  if #rest ~= 2 then return fail 'two databases are compared' end
  if opt.match_all == (#opt.match > 0) then
    return fail 'say in what pairs agree: --match-all, or --match with names'
  end
  local condition, wrong = verdicts.condition(opt.fail_on)
  if not condition then return fail(wrong) end
  local results, alone = require('ridge.sweep.compare').databases(rest[1], rest[2], {
    match = not opt.match_all and opt.match or nil, margin = opt.margin,
    sweep = opt.sweep ~= '' and opt.sweep or nil })
  if opt.as == 'json' then print_json(results) else print_text(results) end
  if alone > 0 then plain.note(('%d timings are in one of them only\n'):format(alone)) end
  return verdicts.status(results, condition, opt.strict)
end

return M
