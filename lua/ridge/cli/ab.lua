-- SPDX-License-Identifier: MIT
--- `ridge ab`: two kinds of points of a sweep held against each other, timed again in fresh
--- processes.

local args = require 'ridge.cli.args'
local stored = require 'ridge.cli.stored'
local canonical = require 'ridge.store.canonical'
local origins = require 'ridge.cli.origin'
local verdicts = require 'ridge.cli.verdicts'
local plain = require 'ridge.plain'
local ratio = require 'ridge.show.ratio'

local M = {}

M.summary = 'which of two kinds is faster: ridge ab mlp.lua --a impl=naive --b impl=blocked'
M.usage = 'ridge ab RECIPE|SWEEP --a impl=naive --b impl=blocked [options] [-- recipe arguments]\n'
  .. '       ridge ab A.onnx B.onnx [options]'

local SPEC = {
  about = [[
Times pairs of points of a recipe's sweep in paired blocks, several processes each, beside an A/A
control. Says of b against a: faster, slower, equal or open.

    ridge ab mlp.lua --a impl=naive --b impl=blocked --match batch,width --fail-on 'slower>2%'

Of two ONNX files, or of one and a program that runs it (a worker as scripts/peers/ort_worker.py),
the plans are compared, on the same drawn inputs.

    ridge ab net.onnx small.onnx --size N=8
    ridge ab net.onnx --program 'python3 scripts/peers/ort_worker.py net.onnx'

Exit status: 0; 3 when --fail-on holds for a pair; 4 with --strict when a pair is open.]],
  rest = 'RECIPE|SWEEP [-- recipe arguments], or A.onnx B.onnx',
  { 'a', {}, 'parameters of a: name=value,...' },
  { 'b', {}, 'parameters of b' },
  { 'match', {}, 'parameters in which a pair agrees; all others when left out' },
  { 'phases', {}, 'phases to compare; all when left out' },
  { 'fail_on', '', "'slower', 'slower>2%', 'faster' ...: status 3 when a pair is that" },
  { 'strict', false, 'status 4 when a pair stays open' },
  { 'processes', 6, 'fresh processes', integer = true, min = 1, max = 64 },
  { 'rigorous', false, 'twelve processes' },
  { 'blocks', 6, 'blocks of a process in a look', integer = true, min = 6 },
  { 'looks', 10, 'looks at most', integer = true, min = 1, max = 20 },
  { 'margin', 0.01, 'what is less is equal', min = 0, max = 1 },
  { 'cold', false, 'write over the caches before every slot' },
  { 'check', true, 'take candidates that compute something else too' },
  { 'tolerance', 0, 'how far results may differ, relative; 0: by their types', min = 0 },
  { 'size', {}, 'of an ONNX file: sizes that it leaves open, N=8', each = true },
  { 'program', '', 'instead of B.onnx: words of a program that is timed from outside' },
  { 'passes', 'standard', 'that run on graphs of ONNX files (ridge.compile: aggressive)',
    choices = { 'none', 'standard', 'aggressive' } },
  { 'db', '', 'database file; RIDGE_DB or results/ridge.db when left out' },
  { 'keep', true, 'print only, store nothing' },
  { 'as', 'text', 'what is printed', choices = { 'text', 'json' } },
}

-- -- Reading the command line ------------------------------------------------------------

local function list_or_nil(list) return #list > 0 and list or nil end

-- -- Printing --------------------------------------------------------------------------------

local function note_of(found)
  if found.aa_fail then
    return ('a against itself: %s'):format(ratio.text(found.aa))
  elseif found.verdict == 'open' then
    return ('about %d blocks in each process would decide'):format(found.needed)
  end
  return ''
end

local function print_text(results)
  local space = require 'ridge.sweep.space'
  verdicts.print(results, function(found) return space.label(found.pair) end, note_of)
end

local JSON = { 'phase', 'verdict', 'ratio', 'ci_lo', 'ci_hi', 'p', 'q', 'floor', 'margin', 'aa',
  'aa_fail', 'a_ns', 'b_ns', 'blocks', 'procs', 'looks', 'needed', 'cache', 'flags' }

local function print_json(results)
  local list = {}
  for i, found in ipairs(results) do
    local row = { a = found.params.a, b = found.params.b, match = found.pair }
    for _, name in ipairs(JSON) do row[name] = found[name] end
    row.flags = canonical.list(row.flags)
    list[i] = row
  end
  plain.print(canonical.encode { version = 1, comparisons = canonical.list(list) }, '\n')
end

-- -- The command --------------------------------------------------------------------------------

local function fail(reason) return stored.fail('ab', reason) end

local function options_of(opt)
  local a, why_a = verdicts.params(opt.a, 'a')
  local b, why_b = verdicts.params(opt.b, 'b')
  if not (a and b) then return nil, why_a or why_b end
  return {
    a = a, b = b, match = list_or_nil(opt.match), phases = list_or_nil(opt.phases),
    db = opt.db ~= '' and opt.db or nil, keep = opt.keep, rigorous = opt.rigorous,
    processes = not opt.rigorous and opt.processes or nil, blocks = opt.blocks,
    looks = opt.looks, margin = opt.margin, check = opt.check,
    tolerance = opt.tolerance > 0 and opt.tolerance or nil,
    protocol = { level = 'quick', cache = opt.cold and 'cold' or 'warm' },
    progress = function(text) plain.note(text, '\n') end,
  }
end

--- Compare and print.
---@param argv string[]
---@return integer status
function M.main(argv)
  local opt, rest = args.read(SPEC, argv)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'ab'), '\n')
    return 0
  elseif not opt then
    return fail(rest)
  end
  local name = table.remove(rest, 1)
  if not name then return fail 'a recipe or a sweep is missing' end
  if name:find '%.onnx$' then return require('ridge.cli.ab_onnx').run(opt, name, rest) end
  if #opt.size > 0 or opt.program ~= '' or opt.passes ~= 'standard' then
    return fail('--size, --program and --passes are of ONNX files, and ' .. plain.line(name)
      .. ' is none')
  end
  local given, reason = options_of(opt)
  if not given then return fail(reason) end
  local condition, wrong = verdicts.condition(opt.fail_on)
  if not condition then return fail(wrong) end
  local origin, why = origins.of(name, rest, given.db)
  if not origin then return fail(why) end
  local sw = require('ridge.cli.remote').sweep_of(origin)
  local same, differs = origins.agrees(sw, origin)
  if not same then return fail(differs) end
  given.origin = origins.sent(origin)
  local results = require('ridge.sweep.ab').run(sw, given)
  if opt.as == 'json' then print_json(results) else print_text(results) end
  return verdicts.status(results, condition, opt.strict)
end

return M
