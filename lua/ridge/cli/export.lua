-- SPDX-License-Identifier: MIT
--- `ridge export`: all rows of a sweep, or its raw samples, as a file.

local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'all rows of a sweep as a file: ridge export widths --as csv -o widths.csv'
M.usage = 'ridge export SWEEP [--as csv|json|jsonl|md|tensorboard] [--samples] [-o FILE]'

local SPEC = {
  about = [[
Every column of every point, all digits; with --samples one line for each sample instead.

    ridge export widths --as csv -o widths.csv
    ridge export widths --samples --as jsonl
    ridge export widths --as tensorboard -o runs   # tensorboard --logdir runs

As event files of TensorBoard each point is a run with its parameters, numbers, curves and samples,
in a folder of its own below the one that -o names.]],
  rest = 'SWEEP', most = 1,
  { 'samples', false, 'the raw samples, in the order they were taken' },
  { 'o', '', 'file to write, or folder of event files, whole or not at all; standard output when '
    .. 'left out, or -', short = 'o', writes = 'either' },
  { 'as', 'csv', 'form', choices = { 'csv', 'json', 'jsonl', 'md', 'table',
    'tensorboard' } },
  stored.DB,
}

-- Samples are read a timed phase at a time: a sweep may have more of them than memory holds.
local function samples(st, sweep)
  local results = require 'ridge.store.results'
  local phases = st.db:look([[/* timed phases */ SELECT t.id AS trial, g.phase, g.cache
      FROM main.trial t JOIN main.timing g ON g.attempt_id = t.best_attempt
      WHERE t.sweep_id = ? AND g.cache <> 'first' ORDER BY t.id, g.id]], sweep.id)
  local function each()
    local k, i, s = 0, 0, nil
    return function()
      i = i + 1
      while not s or i > #s.dur do
        k, i = k + 1, 1
        local row = phases[k]
        if not row then return nil end
        s = results.samples(st, row.trial, row.phase, row.cache)
      end
      local row = phases[k]
      return { row.trial, row.phase, row.cache, i, s.at and s.at[i], s.dur[i],
        s.mark and s.mark[i] }
    end
  end
  return { titles = { 'trial', 'phase', 'cache', 'i', 'at_ns', 'ns', 'mark' }, each = each }
end

local function is_folder(path)
  local there = io.open(path .. '/.', 'r')
  if there then there:close() end
  return there ~= nil
end

local function events(st, sweep, opt)
  if opt.samples then
    return stored.fail('export', '--as tensorboard has the samples of each point as a histogram; '
      .. 'leave --samples out')
  end
  if opt.o == '' or opt.o == '-' then
    return stored.fail('export', '--as tensorboard writes a folder: -o FOLDER')
  end
  local counts = require('ridge.sweep.tensorboard').write(st, sweep, opt.o)
  require('ridge.plain').print(('%s: %d points, %d pictures; tensorboard --logdir %s\n'):format(
    opt.o, counts.points, counts.pictures, opt.o))
end

--- Write the file.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('export', SPEC, argv, 'read', function(opt, rest, st)
    local query = require 'ridge.store.query'
    if not rest[1] then
      return stored.fail('export', 'a sweep is missing; ridge sweeps lists them')
    end
    local sweep = query.sweep(st, rest[1])
    if opt.as == 'tensorboard' then return events(st, sweep, opt) end
    if opt.o ~= '' and is_folder(opt.o) then
      return stored.fail('export', ("-o: '%s' cannot be written: it is a folder"):format(opt.o))
    end
    if opt.samples then
      stored.show(samples(st, sweep), opt)
    else
      stored.show(query.all(st, sweep.name), opt)
      local below = st.db:value(require('ridge.store.schema').BELOW, sweep.id)
      if below > 0 then
        require('ridge.plain').note((below == 1 and '1 end of an interval is stored below zero '
          .. '(an older protocol); it is written as 0\n' or '%d ends of intervals are stored below '
          .. 'zero (an older protocol); they are written as 0\n'):format(below))
      end
    end
  end)
end

return M
