-- SPDX-License-Identifier: MIT
--- `ridge bench MODEL ...`: time and memory of models written as text, over batch sizes and their
--- own parameters; a sweep like any other, and a report of it.

local args = require 'ridge.cli.args'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = "time and memory of a model: ridge bench 'linear{1024,4096}' -P batch=1..256*2"
M.usage = "ridge bench MODEL ... [-P name=values] [options]"

local SPEC = {
  about = [[
Measures models over batch sizes (1, 8, 32, 64 when -P batch is left out), keeps every sample in the
database and prints what they say. The same command again goes on, and prints what is stored.

    ridge bench 'linear{1024,4096}' -P batch=1..256*2 --cold --precision 0.5%
    ridge bench 'linear{1024,512}' 'sketched{1024,512,T,R}' -P T=1,2 -P R=16..64*2 -P batch=32

Models: linear{in,out}, lowrank{in,out,rank}, sketched{in,out,num_terms,low_rank} (or sklinear),
mlp{784,256,10}, sequential{linear{784,256},relu,linear{256,10}}; bias=false, act=relu. A name where
a number belongs is a parameter for -P. The first model is what the others are compared with.

Exit status: 0; 2 when points failed.]],
  rest = 'MODEL ...',
  { 'param', {}, 'values: batch=1..256*2, w=128..512+128, k=1,2,4', short = 'P', each = true },
  { 'dtype', 'f32', 'of weights and input', choices = { 'f32', 'f64', 'bf16', 'f16' } },
  { 'device', 'cpu', 'where models run: cpu, cuda:0 ...' },
  { 'cold', false, 'write over the caches before every sample, one call a sample' },
  { 'precision', '', 'half-width of the interval to stop at: 0.5%' },
  { 'quick', false, 'three rounds' },
  { 'rigorous', false, 'more rounds, to 0.5 %' },
  { 'iterations', 0, 'exactly so many timed calls, one a sample; 0: until precise', integer = true,
    min = 0, max = 1e6 },
  { 'warmup', -1, 'exactly so many calls before; -1: until steady', integer = true, min = -1,
    max = 1e6 },
  { 'seed', 1, 'of weights, input and order', integer = true, min = 0 },
  { 'threads', 0, 'compute threads; 0: as they are', integer = true, min = 0,
    max = 1024 },
  { 'workers', 1, 'processes that prepare at once', integer = true, min = 1, max = 1024 },
  { 'db', '', 'database file; RIDGE_DB or results/ridge.db when left out' },
  { 'name', '', 'name of the sweep; made from its content when left out' },
  { 'new', false, 'measure again, as another sweep' },
  { 'calibrate', true, 'take no calibration of this machine, not even a stored one' },
  { 'as', 'text', 'what is printed', choices = { 'text', 'json', 'csv' } },
  { 'samples', false, 'with all samples, in JSON' },
  { 'out', '', 'folder for a JSON file of each model and batch size',
    writes = 'folder' },
}

local function fail(reason) return stored.fail('bench', reason) end

--- A share from '0.5%' or '0.005'; nil and why not.
---@param text string
---@return number|nil share
---@return string|nil reason
function M.share(text)
  local percent = text:match '^%s*([%d.]+)%s*%%%s*$'
  local share = percent and tonumber(percent) and tonumber(percent) / 100 or tonumber(text)
  if not share or share < 1e-4 or share > 1 then
    return nil, ("'%s' is not like 0.5%%, from 0.01%% to 100%%"):format(text)
  end
  return share
end

-- Protocol and sweep options from the command line; nil and why not.
local function settings(opt)
  local protocol = { level = opt.rigorous and 'rigorous' or opt.quick and 'quick' or 'default',
    processes = 1 }
  if opt.precision ~= '' then
    local share, reason = M.share(opt.precision)
    if not share then return nil, '--precision: ' .. reason end
    protocol.precision = share
  end
  if opt.quick and opt.rigorous then return nil, 'it is one of --quick and --rigorous' end
  if opt.iterations == 1 then return nil, '--iterations: one call has no interval' end
  return { space = require('ridge.sweep.written').parameters(opt.param), protocol = protocol,
    name = opt.name ~= '' and opt.name or nil, dtype = opt.dtype, device = opt.device,
    seed = opt.seed, cache = opt.cold and 'cold' or 'warm',
    num_iterations = opt.iterations > 0 and opt.iterations or nil,
    warmup_iterations = opt.warmup >= 0 and opt.warmup or nil }
end

local function print_report(report, opt)
  if opt.as == 'json' then
    plain.print(report:json { samples = opt.samples }, '\n')
  elseif opt.as == 'csv' then
    plain.print(report:csv(), '\n')
  else
    plain.print(report:text(), '\n')
  end
  if opt.out ~= '' then
    for _, path in ipairs(report:save(opt.out)) do plain.note(path, '\n') end
  end
end

--- Measure what is not measured yet, and print all of it.
---@param argv string[]
---@return integer status
function M.main(argv)
  local opt, rest = args.read(SPEC, argv)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'bench'), '\n')
    return 0
  elseif not opt then
    return fail(rest)
  elseif #rest == 0 then
    return fail "a model is missing, such as 'linear{1024,4096}'"
  end
  local given, reason = settings(opt)
  if not given then return fail(reason) end
  if opt.threads > 0 then require('ridge.backend').set_threads(opt.threads) end
  require('ridge.host').settings.restarts = true -- the same words again measure the same
  local bench = require 'ridge.bench'
  local sw = bench.sweep(rest, given)
  local summary = sw:run { db = opt.db ~= '' and opt.db or nil, new = opt.new,
    workers = opt.workers, calibrate = opt.calibrate }
  local report, missing = bench.report(sw)
  if #report.entries > 0 then print_report(report, opt) end
  for _, row in ipairs(missing) do
    plain.note(('%s batch %d: %s: %s\n'):format(row.model, row.batch, row.state,
      row.reason or 'not measured'))
  end
  return summary.failed > 0 and 2 or 0
end

return M
