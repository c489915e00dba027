-- SPDX-License-Identifier: MIT
--- Points of one sweep that were measured on unlike machines.
--
-- What is drawn, ranked, compared or averaged together would show what machines differ by as if
-- it were what points do.  It is refused unless asked for, and the anchors say by how much they
-- differ.

local anchors = require 'ridge.sweep.anchors'
local blame = require 'ridge.blame'
local hardware = require 'ridge.sweep.hardware'
local plain = require 'ridge.plain'

local M = {}

-- Most files are of one machine, and no point of theirs is looked at.
local ANY = ([[/* unlike machines */ SELECT max(n) FROM (SELECT count(*) AS n FROM (
    SELECT DISTINCT %s FROM main.env e %s) GROUP BY kind)]]):format(hardware.COLUMNS,
  hardware.JOINS)

-- Where points were measured: their passes may have been taken on several machines, that of the
-- last pass comes last.
local OF = ([[/* unlike machines of a sweep */ SELECT %s, o.trial
  FROM (SELECT t.id AS trial, coalesce(p.env_id, a.env_id) AS env_id, max(p.pass) AS pass
    FROM main.trial t JOIN main.attempt a ON a.id = t.best_attempt
    LEFT JOIN main.attempt p ON p.series = a.series AND p.outcome = 'ok'
    WHERE t.sweep_id IN (%%s) AND t.role = '%%s' GROUP BY 1, 2) o
  JOIN main.env e ON e.id = o.env_id %s ORDER BY o.trial, o.pass, m.id]]):format(hardware.FACTS,
  hardware.JOINS)

local function is_mixed(st) return (st.db:value(ANY) or 0) >= 2 end

local function places(st, sweeps, role, to_end)
  local ids, ask = {}, to_end and st.db.query or st.db.look
  for i, sweep in ipairs(sweeps) do ids[i] = ('%d'):format(sweep.id) end
  return ask(st.db, OF:format(table.concat(ids, ','), role))
end

--- Machines that points were measured on, those with most points first.
---@param rows table places: machine_id, machine, trial and what ridge.sweep.hardware.key takes
---@return table list as of M.kinds, also where all are alike
function M.machines(rows)
  local by_key, list = {}, {}
  for _, row in ipairs(rows) do
    local key = row.key or hardware.key(row)
    local each = by_key[key]
    if not each then
      each = { key = key, cpu = row.cpu, kind = row.kind, name = row.name, threads = row.threads,
        machine = row.machine, machines = 0, points = 0, seen = {}, trials = {} }
      by_key[key], list[#list + 1] = each, each
    end
    if not each.seen[row.machine_id] then
      each.seen[row.machine_id], each.machines = true, each.machines + 1
      if row.machine < each.machine then each.machine = row.machine end
    end
    if not each.trials[row.trial] then
      each.trials[row.trial], each.points = true, each.points + 1
    end
  end
  for _, each in ipairs(list) do each.seen, each.trials = nil, nil end
  table.sort(list, function(a, b)
    if a.points ~= b.points then return a.points > b.points end
    return a.machine < b.machine
  end)
  return list
end

-- The same, none where they are alike.
local function sum_up(rows)
  local list = M.machines(rows)
  return hardware.differ(list) and list or {}
end

--- Unlike machines that points of sweeps are of; none where they are alike. A CPU and a GPU are
--- devices of one.
---@param st table store
---@param sweeps table[] with id
---@param to_end boolean|nil also where a stop was asked for
---@return table list of cpu, kind, name (of the device), threads, machine (one of them), machines,
---  points, key; those with most points first
function M.kinds(st, sweeps, to_end)
  return is_mixed(st) and sum_up(places(st, sweeps, 'point', to_end)) or {}
end

local SHOWN = 3

--- They in words: 'Xeon, 2 threads (m1a2b3c4, 12 points) and Other CPU 7, 8 threads (...)'.
---@param kinds table of `kinds`
---@return string text
function M.text(kinds)
  local words = {}
  for i, k in ipairs(kinds) do
    if i > SHOWN then break end
    words[i] = ('%s, %s (%s%s, %s)'):format(plain.line(hardware.name(k)),
      plain.count(k.threads or 1, 'thread'), k.machine,
      k.machines > 1 and (' and %d more'):format(k.machines - 1) or '',
      plain.count(k.points, 'point'))
  end
  if #kinds > SHOWN then words[#words + 1] = ('%d more'):format(#kinds - SHOWN) end
  local last = table.remove(words)
  return #words > 0 and table.concat(words, '; ') .. ' and ' .. last or last
end

local function names_of(sweeps)
  local names = {}
  for i, sweep in ipairs(sweeps) do names[i] = plain.line(sweep.name) end
  return table.concat(names, ', ')
end

--- What is said of points of unlike machines, with the anchors; nil where they are alike.
---@param st table store
---@param sweeps table[] with id, name
---@param to_end boolean|nil also where a stop was asked for
---@return string|nil text
function M.told(st, sweeps, to_end)
  local kinds = M.kinds(st, sweeps, to_end)
  if #kinds == 0 then return nil end
  return ('points of %s are of unlike machines: %s; %s'):format(names_of(sweeps), M.text(kinds),
    anchors.text(st, sweeps, kinds, to_end))
end

--- Raise where points of sweeps are of unlike machines.
---@param st table store
---@param sweeps table[] with id, name
---@param who string what asks, for the message
---@param ask string how to ask for it all the same
function M.refuse(st, sweeps, who, ask)
  local told = M.told(st, sweeps)
  if told then blame.raise(('%s: %s; %s'):format(who, told, ask), 'EARG', who) end
end

-- -- Rows as values -------------------------------------------------------------------------------

-- What is known of a row: places (of OF), sweep, anchors (text). Rows that nobody asked this of are
-- of one machine, as far as is known.
local known = setmetatable({}, { __mode = 'k' })

--- Let rows of a sweep know where they are of: `machine` and `cpu` become columns where its points
--- are of unlike machines.
---@param st table store
---@param sweep table id, name
---@param rows table of ridge.store.results
---@param role string|nil 'point' when left out
---@return table rows the same
function M.tag(st, sweep, rows, role)
  if not is_mixed(st) then return rows end
  local all = places(st, { sweep }, role or 'point')
  local kinds = sum_up(all)
  if #kinds == 0 then return rows end
  local text, by_trial = anchors.text(st, { sweep }, kinds), {}
  for _, place in ipairs(all) do
    place.key = hardware.key(place)
    by_trial[place.trial] = by_trial[place.trial] or {}
    table.insert(by_trial[place.trial], place)
  end
  for _, row in ipairs(rows) do
    local list = by_trial[row.trial]
    if list then
      known[row] = { places = list, sweep = sweep.name, anchors = text }
      local last = list[#list]
      if row.machine == nil then row.machine = last.machine end
      if row.cpu == nil then row.cpu = last.cpu end
    end
  end
  return rows
end

--- A copy of a row is of where the row is of.
---@param row table
---@param copy table
---@return table copy
function M.same(row, copy)
  known[copy] = known[row]
  return copy
end

--- Where a row was measured, its last pass; nil where nobody asked, or points are of one kind.
---@param row table
---@return table|nil place key, kind, cpu, name, machine
function M.place(row)
  local about = known[row]
  return about and about.places[#about.places]
end

--- What is said of rows of unlike machines; nil where they are alike, or nobody knows.
---@param rows table
---@return string|nil text
---@return string|nil machines by their names
function M.of_rows(rows)
  local all, sweeps, names, texts = {}, {}, {}, {}
  for _, row in ipairs(rows) do
    local about = known[row] or row.of and known[row.of]
    for _, place in ipairs(about and about.places or {}) do all[#all + 1] = place end
    if about and not sweeps[about.sweep] then
      sweeps[about.sweep] = true
      names[#names + 1], texts[#texts + 1] = { name = about.sweep }, about.anchors
    end
  end
  local kinds = #all > 0 and sum_up(all) or {}
  if #kinds == 0 then return nil end
  return ('points of %s are of unlike machines: %s; %s'):format(names_of(names), M.text(kinds),
    table.concat(texts, '; ')), M.text(kinds)
end

M.GROUP = 'machine as a group or a side keeps them apart, '
  .. ":where { machine = 'm...' } asks for one, "
  .. 'sw:results { mixed = true } for all as if they were of one'

M.ROWS = 'sw:results { mixed = true } gives rows as if they were of one, '
  .. ":where { machine = 'm...' } those of one"

--- Raise where rows are of unlike machines.
---@param rows table
---@param who string what asks, for the message
---@param ask string|nil how to ask for it all the same
function M.check(rows, who, ask)
  local told = M.of_rows(rows)
  if told then blame.raise(('%s: %s; %s'):format(who, told, ask or M.ROWS), 'EARG', who) end
end

-- -- Asking ---------------------------------------------------------------------------------------

--- Columns that say on which machine: who names one keeps them apart, or asks for one.
M.COLUMNS = { machine = true, cpu = true, host = true }

--- Does a text name one of them?  What stands in quotes is a value: device = 'cpu' asks for none.
---@param text any
---@return boolean
function M.named(text)
  local names = type(text) == 'string' and text:gsub("'[^']*'", ' '):gsub('"[^"]*"', ' ') or ''
  for word in names:gmatch '[%a_][%w_]*' do
    if M.COLUMNS[word] then return true end
  end
  return false
end

--- Raise where a question to sweeps makes one number of points of unlike machines.
---@param st table store
---@param sweeps table[] with id, name
---@param opt table where, group, mixed
function M.question(st, sweeps, opt)
  if opt.mixed or M.named(opt.where) or M.named(opt.group) then return end
  M.refuse(st, sweeps, 'query', "machine as a group (--group machine) keeps them apart, where "
    .. "(--where 'machine = \"m...\"') asks for one, mixed (--mixed) for all")
end

--- Kinds of pictures whose points are not held against each other, or say themselves where they are
--- of.
M.EACH_ALONE = { forest = true, history = true, samples = true, distribution = true }

--- Raise where a picture would draw rows of unlike machines together.
---@param kind string
---@param rows table
---@param opt table of the kind
function M.picture(kind, rows, opt)
  if M.EACH_ALONE[kind] then return end
  for _, text in pairs(opt or {}) do
    if M.named(text) then return end
  end
  M.check(rows, 'plot.' .. kind, 'facet, by or a side of a ratio over machine keeps them apart; '
    .. M.ROWS)
end

return M
