-- SPDX-License-Identifier: MIT
--- A stored sweep as event files of TensorBoard: a run for each point, with its parameters, its
--- numbers, its curves and how its samples are distributed; above them the experiment, with
--- pictures.

local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local picture = require 'ridge.sweep.picture'
local place = require 'ridge.store.place'
local results = require 'ridge.store.results'
local tensorboard = require 'ridge.tensorboard'

local M = {}

local BUFFER = 2 ^ 20 -- bytes that wait: what is here is in the database as well

-- Columns of rows that are no result.
local OWN = { trial = true, rep = true, tries = true, began = true, reused = true,
  implied_by = true, passes = true, partner = true }

-- Pictures that are tried; of a sweep that has not what one needs there is none.
local PICTURES = { 'map', 'training', 'slices', 'roofline', 'distribution' }

-- Points that were not tried are no runs; those that failed are.
local UNTRIED = { pending = true, running = true, infeasible = true, implied = true }

local PHASES = [[/* phases of a sweep */ SELECT DISTINCT g.phase FROM main.timing g
  JOIN main.trial t ON t.best_attempt = g.attempt_id
  WHERE t.sweep_id = ? AND g.cache <> 'first' ORDER BY 1]]
local CURVES = [[/* names of curves */ SELECT DISTINCT c.name FROM main.curve c
  JOIN main.trial t ON t.best_attempt = c.attempt_id WHERE t.sweep_id = ? ORDER BY 1]]

local function seconds(row) return row.began and row.began / 1e6 or nil end

-- Names of the columns of a row that are numbers and results, sorted.
local function scalars_of(row, params)
  local names = {}
  for name, value in pairs(row) do
    if type(value) == 'number' and not params[name] and not OWN[name] then
      names[#names + 1] = name
    end
  end
  table.sort(names)
  return names
end

local function own_params(row, params)
  local out = {}
  for _, name in ipairs(params) do
    local kind = type(row[name])
    if kind == 'number' or kind == 'boolean' then
      out[name] = row[name]
    elseif row[name] ~= nil then
      out[name] = tostring(row[name])
    end
  end
  return out
end

-- The curves of all points: by trial a list of { name, step, seconds, value }.
local function curves_of(st, sweep)
  local by = {}
  for _, c in ipairs(st.db:look(CURVES, sweep.id)) do
    for _, at in ipairs(results.curves(st, sweep.id, c.name)) do
      by[at.trial] = by[at.trial] or {}
      table.insert(by[at.trial], { name = c.name, step = at.step, seconds = at.seconds,
        value = at.value or 0 / 0 }) -- the database has nothing for what is not finite
    end
  end
  return by
end

local function folder_of(folder, row) return ('%s/point-%d'):format(folder, row.trial) end

-- Event files of an earlier export would be shown as well, each number twice.
local function check_fresh(folder, rows)
  for _, row in ipairs(rows) do
    if place.exists(folder_of(folder, row)) then
      blame.raise(('export: %s is there already; TensorBoard would show what is in it as well')
        :format(folder_of(folder, row)), 'EARG')
    end
  end
end

-- One point.
local function write_point(st, folder, row, from)
  local w = tensorboard.Writer(folder_of(folder, row), { buffer = BUFFER })
  local at = seconds(row)
  w:hparams(own_params(row, from.params), nil, at)
  for _, column in ipairs(scalars_of(row, from.is_param)) do
    w:scalar(column, row[column], 0, at)
    from.tags[column] = true
  end
  for _, c in ipairs(from.curves[row.trial] or {}) do
    w:scalar(c.name, c.value, c.step, at and at + (c.seconds or 0))
    from.tags[c.name] = true
  end
  for _, phase in ipairs(from.phases) do
    local s = results.samples(st, row.trial, phase.phase)
    if s then w:histogram(phase.phase .. '_samples', s.dur, 0, at) end
  end
  w:ended(row.state == 'ok', at)
  w:close()
end

-- The values that each parameter has; what some points lack is theirs alone.
local function values_of(rows, params)
  local out = {}
  for _, name in ipairs(params) do
    local seen, list = {}, {}
    for _, row in ipairs(rows) do
      local value = own_params(row, { name })[name]
      if value ~= nil and not seen[value] then
        seen[value], list[#list + 1] = true, value
      end
    end
    local kind = type(list[1])
    for _, value in ipairs(list) do if type(value) ~= kind then kind = nil end end
    if kind ~= 'number' and kind ~= 'boolean' then
      for i, value in ipairs(list) do list[i] = tostring(value) end
    end
    if kind ~= 'boolean' then table.sort(list) end
    if #list > 0 then out[name] = list end
  end
  return out
end

local function pictures(st, sweep, w)
  local n = 0
  for _, kind in ipairs(PICTURES) do
    local ok, err = pcall(function() w:image(kind, picture.figure(kind, st, sweep, {}), 0) end)
    if ok then n = n + 1 end
    -- one that this sweep has not the columns for is not missed; a full disk is
    if not ok and (not blame.is_error(err) or err.code ~= 'EARG') then error(err, 0) end
  end
  return n
end

--- Write a sweep.
---@param st table an open store
---@param sweep table id, name
---@param folder string of its runs; made where it is missing
---@return table counts points, pictures
function M.write(st, sweep, folder)
  local rows, params = results.rows(st, sweep.id), results.params(st, sweep.id)
  local from = { params = params, is_param = {}, curves = curves_of(st, sweep), tags = {},
    phases = st.db:look(PHASES, sweep.id) }
  for _, name in ipairs(params) do from.is_param[name] = true end
  check_fresh(folder, rows)
  local n = 0
  for _, row in ipairs(rows) do
    call.look 'export'
    if not UNTRIED[row.state] then
      write_point(st, folder, row, from)
      n = n + 1
    end
  end
  if n == 0 then
    blame.raise(('export: no point of %s was tried'):format(sweep.name), 'EARG')
  end
  local w, tags = tensorboard.Writer(folder, { buffer = BUFFER }), {}
  for tag in pairs(from.tags) do tags[#tags + 1] = tag end
  table.sort(tags)
  w:experiment(values_of(rows, params), tags)
  local drawn = pictures(st, sweep, w)
  w:close()
  return { points = n, pictures = drawn }
end

return M
