-- SPDX-License-Identifier: MIT
--- `ridge batch-size MODEL`: the largest batch that fits, or the one with the best throughput,
--- found by measuring.

local args = require 'ridge.cli.args'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = "the best batch size: ridge batch-size 'linear{1024,4096}' --kind throughput"
M.usage = 'ridge batch-size MODEL [--kind inference|throughput|training] [options]'

local SPEC = {
  about = [[
Tries batches for real: doubled until one does not fit and then bisected (inference; training: with
gradients and the state of an optimizer), or until their intervals say that there is nothing to gain
(throughput). Prints the curve and why it stopped, keeps it in the database, draws it with --out.

    ridge batch-size 'linear{1024,4096}' --memory 2GB --out fit.png
    ridge batch-size 'mlp{784,512,10}' --kind throughput --quick

Exit status: 0; 2 when not even the least batch fits.]],
  rest = 'MODEL',
  { 'kind', 'inference', 'what is looked for',
    choices = { 'inference', 'throughput', 'training' } },
  { 'optimizer', 'adam', 'whose state a training step holds; sgd has momentum',
    choices = { 'sgd', 'adam', 'adamw', 'lion' } },
  { 'share', '90%', 'of the memory that may be used' },
  { 'memory', '', 'how much there is: 512MB, 2GB; what is free when left out' },
  { 'min', 1, 'least batch', integer = true, min = 1 },
  { 'max', 0, 'largest batch; 0: 65536 for what fits, 4096 for throughput', integer = true,
    min = 0 },
  { 'step', 0, 'of the batches of throughput; 0: doubled', integer = true, min = 0 },
  { 'least', '1%', 'gain of throughput that is worth having' },
  { 'budget', '', 'of the search for throughput: 90s, 5m' },
  { 'dtype', 'f32', 'of weights and input', choices = { 'f32', 'f64', 'bf16', 'f16' } },
  { 'device', 'cpu', 'whose memory it is: cpu, cuda:0 ...' },
  { 'cold', false, 'write over the caches before every sample' },
  { 'quick', false, 'three rounds a batch' },
  { 'rigorous', false, 'more rounds, to 0.5 %' },
  { 'seed', 1, 'of weights, input and order', integer = true, min = 0 },
  { 'threads', 0, 'compute threads; 0: as they are', integer = true, min = 0,
    max = 1024 },
  { 'db', '', 'database file; RIDGE_DB or results/ridge.db when left out' },
  { 'out', '', 'PNG file for the curve',
    writes = 'file' },
  { 'theme', 'light', 'of the curve', choices = { 'light', 'dark' } },
  { 'as', 'text', 'what is printed', choices = { 'text', 'json' } },
}

local function fail(reason) return stored.fail('batch-size', reason) end

local UNIT = { [''] = 1, B = 1, K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30, T = 2 ^ 40 }

--- Bytes from '512MB' or '2GB' (of 1024); nil and why not.
---@param text string
---@return number|nil bytes
---@return string|nil reason
function M.bytes(text)
  local n, unit = text:upper():match '^%s*([%d.]+)%s*([KMGT]?)I?B?%s*$'
  n = tonumber(n)
  if not n or n <= 0 then return nil, ("'%s' is not like 512MB or 2GB"):format(text) end
  return n * UNIT[unit]
end

local function settings(opt)
  if opt.quick and opt.rigorous then return nil, 'it is one of --quick and --rigorous' end
  local share_of = require('ridge.cli.bench').share
  local share, why = share_of(opt.share)
  if not share then return nil, '--share: ' .. why end
  local least = 0
  if opt.least ~= '0' and opt.least ~= '0%' then
    least, why = share_of(opt.least)
    if not least then return nil, '--least: ' .. why end
  end
  local memory
  if opt.memory ~= '' then
    memory, why = M.bytes(opt.memory)
    if not memory then return nil, '--memory: ' .. why end
  end
  return { kind = opt.kind, optimizer = opt.optimizer, share = share, least = least,
    memory = memory, min = opt.min,
    max = opt.max > 0 and opt.max or nil, step = opt.step > 0 and opt.step or nil,
    budget = opt.budget ~= '' and opt.budget or nil, dtype = opt.dtype, device = opt.device,
    seed = opt.seed, protocol = opt.rigorous and 'rigorous' or opt.quick and 'quick' or 'demo',
    cache = opt.cold and 'cold' or 'warm', db = opt.db ~= '' and opt.db or nil,
    say = function(text) plain.note(text, '\n') end }
end

local function json(found)
  local canonical = require 'ridge.store.canonical'
  return canonical.encode { format = 'ridge-batch-size', version = 1, model = found.model,
    kind = found.kind, best = found.best or canonical.null, stop = found.stop,
    highest = found.highest, undecided = found.unsure,
    reason = found.reason, budget_bytes = found.budget, memory_bytes = found.total,
    sweep = found.kept.name, tries = canonical.list(found:rows()) }
end

local function draw(found, opt)
  local facts = require('ridge.sweep.device').lab(opt.device).facts()
  found:plot({ theme = opt.theme, device = facts.device.name, commit = facts.build.git,
    date = os.date '%Y-%m-%d' }):save(opt.out)
  plain.note(opt.out, '\n')
end

--- Search and print.
---@param argv string[]
---@return integer status
function M.main(argv)
  local opt, rest = args.read(SPEC, argv)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'batch-size'), '\n')
    return 0
  elseif not opt then
    return fail(rest)
  elseif #rest ~= 1 then
    return fail(#rest == 0 and "a model is missing, such as 'linear{1024,4096}'"
      or ("one model at a time, not also '%s'"):format(rest[2]))
  elseif opt.out ~= '' and not opt.out:lower():find '%.png$' then
    return fail('--out: figures are PNG files, so the path must end in .png')
  end
  local given, reason = settings(opt)
  if not given then return fail(reason) end
  if opt.threads > 0 then require('ridge.backend').set_threads(opt.threads) end
  local found = require('ridge.bench').batch_size(rest[1], given)
  plain.print(opt.as == 'json' and json(found) or found:text(), '\n')
  if opt.out ~= '' then
    if found.best then draw(found, opt) else plain.note('no batch ran: nothing to draw\n') end
  end
  return found.best and 0 or 2
end

return M
