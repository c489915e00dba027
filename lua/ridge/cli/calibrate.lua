-- SPDX-License-Identifier: MIT
--- `ridge calibrate`: the machine's ceilings for each element type, cache level and number of
--- threads, and its own noise; measured, dated, stored.

local args = require 'ridge.cli.args'
local stored = require 'ridge.cli.stored'
local plain = require 'ridge.plain'

local M = {}

M.summary = 'measure this machine: ceilings of arithmetic and memory, and its noise'
M.usage = 'ridge calibrate [--threads 1,2] [--device cuda:0] [--quick] [--show]'

local SPEC = {
  about = [[
Measures what this machine can do at best (multiply-adds of each type, reading and triad from each
cache level and from memory) and what identical points differ by, and keeps it with its date.
Rooflines are judged by it. About ten seconds a thread count with --quick, a minute without.

With --device: of a GPU, its copies and products in each type.

    ridge calibrate --threads 1,2
    ridge calibrate --device cuda:0]],
  { 'device', 'cpu', 'whose ceilings: cpu, cuda:0 ...' },
  { 'threads', {}, 'numbers of compute threads; 1 and all processors when left out' },
  { 'quick', false, 'shorter, and only the widest instruction set' },
  { 'show', false, 'print what is stored, measure nothing' },
  { 'db', '', 'database file; RIDGE_DB or results/ridge.db when left out' },
  { 'as', 'text', 'what is printed', choices = { 'text', 'json' } },
}

local function numbers(list)
  local out = {}
  for i, text in ipairs(list) do
    local n = tonumber(text)
    if not n or n ~= math.floor(n) or n < 1 or n > 1024 then
      return nil, ("--threads: '%s' is no number of threads"):format(text)
    end
    out[i] = n
  end
  if #out > 0 then return out end
  local all = tonumber(require('ridge.ffi.lib').rg_processors())
  return all > 1 and { 1, all } or { 1 }
end

-- 'noise.aa' in per cent, rates in G/s, times in ms.
local function shown(row)
  if row.name == 'trust.processes' then return ('%d'):format(row.value) end
  if row.name == 'trust.seconds' then return ('%.0f s'):format(row.value) end
  if row.name:find '^noise%.' or row.name:find '^trust%.' then
    return ('%.2f %%'):format(100 * row.value)
  end
  if row.unit == 'ns' then return ('%.3f ms'):format(row.value / 1e6) end
  if row.unit == 'Hz' then return ('%.3f GHz'):format(row.value / 1e9) end
  local text = ('%.1f G%s'):format(row.value / 1e9, row.unit)
  if not row.ci_lo then return text end
  return ('%s [%.1f .. %.1f]'):format(text, row.ci_lo / 1e9, row.ci_hi / 1e9)
end

local function print_text(rows)
  for _, row in ipairs(rows) do
    local where = row.threads == 0 and 'device     ' or ('%3d thread%s'):format(row.threads,
      row.threads == 1 and ' ' or 's')
    plain.print(('%-18s %s  %-40s %s\n'):format(row.name, where, shown(row),
      os.date('%Y-%m-%d %H:%M', row.at / 1e6)))
  end
end

local function print_json(rows)
  local canonical = require 'ridge.store.canonical'
  local list = {}
  for i, row in ipairs(rows) do
    list[i] = { name = row.name, threads = row.threads, unit = row.unit, value = row.value,
                ci_lo = row.ci_lo, ci_hi = row.ci_hi, at = row.at }
  end
  plain.print(canonical.encode { version = 1, ceilings = canonical.list(list) }, '\n')
end

-- What is stored of these numbers of threads; of a device's own, and of all when none are named.
local function of_threads(rows, threads)
  if not threads then return rows end
  local out = {}
  for _, row in ipairs(rows) do
    for _, n in ipairs(threads) do if row.threads == n or row.threads == 0 then
      out[#out + 1] = row
      break
    end end
  end
  return out
end

local function fail(reason) return stored.fail('calibrate', reason) end

--- Measure, store and print.
---@param argv string[]
---@return integer status 2 when other processes were in the way
function M.main(argv)
  local opt, rest = args.read(SPEC, argv)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'calibrate'), '\n')
    return 0
  elseif not opt then
    return fail(rest)
  end
  local threads, reason = numbers(opt.threads)
  if not threads then return fail(reason) end
  local calibrated = require 'ridge.sweep.calibrated'
  local given = { db = opt.db ~= '' and opt.db or nil, quick = opt.quick, threads = threads,
                  device = opt.device }
  local rows, disturbed
  if opt.show then
    rows = of_threads(calibrated.all(given.db, opt.device), #opt.threads > 0 and threads)
  else
    rows, disturbed = calibrated.measure(given)
  end
  if opt.as == 'json' then print_json(rows) else print_text(rows) end
  if opt.show and #rows == 0 then
    plain.note 'nothing is stored of that; ridge calibrate measures it\n'
  end
  if disturbed and #disturbed > 0 then
    plain.note('ridge calibrate: other processes were in the way (see ridge doctor): the ',
      'noise is not known, and ceilings may be higher than this\n')
    return 2
  end
  return 0
end

return M
