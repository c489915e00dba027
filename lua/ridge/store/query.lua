-- SPDX-License-Identifier: MIT
--- Questions to one sweep: filter, columns, groups, aggregates, order.
--
-- The filter runs in SQLite over the sweep's wide view, with bound values; groups and aggregates
-- are counted here, because SQLite knows no medians.

local blame = require 'ridge.blame'
local expression = require 'ridge.store.expression'
local identity = require 'ridge.store.identity'
local near = require 'ridge.near'
local schema = require 'ridge.store.schema'

local M = {}

-- -- Aggregates -----------------------------------------------------------

local function quantile(q)
  return function(sorted)
    if #sorted == 0 then return nil end
    local at = (#sorted - 1) * q + 1
    local low = math.floor(at)
    local a, b = sorted[low], sorted[math.min(low + 1, #sorted)]
    if at == low or a == b then return a end -- beside an infinity, too
    return a + (b - a) * (at - low)
  end
end

local function sum(list)
  local s = 0
  for _, v in ipairs(list) do s = s + v end
  return s
end

-- Each gets the sorted numbers of a group.
local AGGREGATES = {
  count = function(list) return #list end,
  min = function(list) return list[1] end,
  max = function(list) return list[#list] end,
  sum = function(list) return #list > 0 and sum(list) or nil end,
  mean = function(list) return #list > 0 and sum(list) / #list or nil end,
  median = quantile(0.5),
}
for _, p in ipairs { 1, 5, 10, 25, 75, 90, 95, 99 } do AGGREGATES['p' .. p] = quantile(p / 100) end

--- An aggregate of numbers: count, min, max, sum, mean, median, p95 ...
---@param name string
---@param numbers table
---@return number|nil value
function M.aggregate(name, numbers)
  local fn = AGGREGATES[name]
  if not fn then
    local names = {}
    for known in pairs(AGGREGATES) do names[#names + 1] = known end
    table.sort(names)
    blame.raise(("there is no aggregate '%s'%s; there are %s"):format(tostring(name),
      near.hint(tostring(name), names), table.concat(names, ', ')), 'EARG')
  end
  table.sort(numbers)
  return fn(numbers)
end

-- -- Columns -----------------------------------------------------------

-- Split at commas that stand outside brackets and quotes.
local function split(text)
  local parts, depth, quote, start = {}, 0, nil, 1
  for i = 1, #text do
    local c = text:sub(i, i)
    if quote then
      if c == quote then quote = nil end
    elseif c == '"' or c == "'" then
      quote = c
    elseif c == '(' then
      depth = depth + 1
    elseif c == ')' then
      depth = depth - 1
    elseif c == ',' and depth == 0 then
      parts[#parts + 1] = text:sub(start, i - 1)
      start = i + 1
    end
  end
  parts[#parts + 1] = text:sub(start)
  for i, part in ipairs(parts) do parts[i] = part:match '^%s*(.-)%s*$' end
  return parts
end

-- min and max of one column are aggregates; of several they are functions of a row.
local function is_aggregate(tree)
  return tree.kind == 'call' and AGGREGATES[tree.name] ~= nil and #tree <= 1
end

local function column_of(text)
  local name, body = text:match '^([%a_][%w_]*)%s*:=%s*(.+)$'
  -- count(*) is SQL's word for count()
  local said = (body or text):gsub('^%s*count%s*%(%s*%*%s*%)%s*$', 'count()')
  local tree = expression.parse(said, AGGREGATES)
  local title = name or (text:gsub('%s+', ' '))
  if is_aggregate(tree) then
    if tree.name ~= 'count' and not tree[1] then
      blame.raise(('%s needs a column: %s(fwd)'):format(tree.name, tree.name), 'EARG')
    end
    if tree[1] then expression.check_rows(tree[1], said) end
    return { title = title, aggregate = AGGREGATES[tree.name], tree = tree[1] }
  end
  expression.check_rows(tree, said)
  return { title = title, tree = tree }
end

-- -- The view -----------------------------------------------------------

--- Columns of a sweep's wide view, in order.
---@param st table
---@param name string of the sweep
---@return string[] list
function M.columns(st, name)
  local list = {}
  local view = schema.view_of(st.db, name):gsub('"', '""')
  for i, row in ipairs(st.db:query(('/* columns */ PRAGMA temp.table_info("%s")'):format(view))) do
    list[i] = row.name
  end
  return list
end

--- A sweep by name; raises EARG with the near miss.
---@param st table
---@param name string
---@return table sweep id, name ...
function M.sweep(st, name)
  local sweep = identity.find(st, name)
  if not sweep then
    local names = {}
    for i, row in ipairs(st.db:query '/* names */ SELECT name FROM sweep ORDER BY id DESC') do
      names[i] = row.name
    end
    blame.raise(('there is no sweep %s in %s%s%s'):format(name, st.path, near.hint(name, names),
      #names > 0 and '; it has ' .. table.concat(names, ', ') or ''), 'EARG')
  end
  return sweep
end

--- Is a name like a pattern?
---@param name string
---@param like string|nil a part of it in any case, or all of it with * and ?; nil: any name is
---@return boolean
function M.matches(name, like)
  if not like then return true end
  local pattern = like:lower():gsub('[%^%$%(%)%%%.%[%]%+%-]', '%%%0')
  if not like:find '[*?]' then return name:lower():find(pattern) ~= nil end
  return name:lower():find('^' .. pattern:gsub('%*', '.*'):gsub('%?', '.') .. '$') ~= nil
end

--- Several sweeps by name: 'mlp', 'mlp,mlp-2', 'mlp*'; raises EARG where one is not there.
---@param st table
---@param text string
---@return table[] sweeps each id, name; no one twice
function M.several(st, text)
  local list, seen = {}, {}
  local function add(sweep)
    if not seen[sweep.id] then list[#list + 1], seen[sweep.id] = sweep, true end
  end
  for part in text:gmatch '[^,]+' do
    local name, n = part:match '^%s*(.-)%s*$', #list
    if name:find '[*?]' then
      for _, row in ipairs(st.db:look [[/* sweeps by name */ SELECT id, name FROM main.sweep
          ORDER BY id]]) do
        if M.matches(row.name, name) then add(row) end
      end
      if #list == n then
        blame.raise(('no sweep of %s is like %s'):format(st.path, name), 'EARG')
      end
    else
      add(M.sweep(st, name))
    end
  end
  if #list == 0 then return { M.sweep(st, text) } end
  return list
end

local function set_of(list)
  local set = {}
  for _, name in ipairs(list) do set[name] = true end
  return set
end

-- A sweep's view as SQL; what only others of the same question have is NULL in it.
local function source_of(st, sweep, needed, where)
  local view = schema.view_of(st.db, sweep.name):gsub('"', '""')
  local name, missing, seen = ('temp."%s"'):format(view), {}, {}
  local function look(column)
    if not sweep.known[column] and not seen[column] then
      seen[column] = true
      missing[#missing + 1] = (', NULL AS "%s"'):format(column)
    end
  end
  for _, column in ipairs(needed) do look(column) end
  if where then expression.names(where, look) end
  if #missing == 0 then return name end
  return ('(SELECT *%s FROM %s)'):format(table.concat(missing), name)
end

-- limit: rows that are wanted at most, where any of them will do in the order of the view
local function fetch(st, sweep, needed, where, limit)
  local columns, sql, values = {}, 'role = ?', {}
  for i, name in ipairs(needed) do columns[i] = '"' .. name .. '"' end
  if where then
    local text, bound = expression.sql(where)
    sql, values = sql .. ' AND ' .. text, bound
  end
  return st.db:look(('/* query */ SELECT %s FROM %s WHERE %s%s'):format(
    #columns > 0 and table.concat(columns, ', ') or '1', source_of(st, sweep, needed, where), sql,
    limit and (' LIMIT %d'):format(limit) or ''), 'point', unpack(values))
end

-- What the columns that are computed with hold: name to 'text' or 'a number'.
local function kinds_of(st, sweeps, trees)
  local names, seen, kinds = {}, {}, {}
  for _, tree in ipairs(trees) do
    expression.names(tree, function(name)
      if not seen[name] then
        seen[name] = true
        names[#names + 1] = name
      end
    end)
  end
  if #names == 0 then return kinds end
  local parts = {}
  for i, name in ipairs(names) do
    local is = ([[max(typeof("%s") ]]):format(name)
    parts[i] = ([[%s = 'text') AS t%d, %s IN ('integer', 'real')) AS n%d]]):format(is, i, is, i)
  end
  local is = {}
  for _, sweep in ipairs(sweeps) do
    local row = st.db:look(('/* kinds */ SELECT %s FROM %s WHERE role = ?'):format(
      table.concat(parts, ', '), source_of(st, sweep, names)), 'point')[1]
    for key, value in pairs(row) do is[key] = is[key] or value == 1 end
  end
  for i, name in ipairs(names) do
    kinds[name] = expression.kind { string = is['t' .. i] or false, number = is['n' .. i] or false }
  end
  return kinds
end

local function check_kinds(st, sweeps, columns, where)
  local trees = { where }
  for _, column in ipairs(columns) do
    if column.tree and column.tree.kind ~= 'name' then trees[#trees + 1] = column.tree end
  end
  local kinds = kinds_of(st, sweeps, trees)
  for _, tree in ipairs(trees) do expression.check_kinds(tree, kinds, tree == where) end
end

-- -- Groups -----------------------------------------------------------

local function key_of(row, by)
  local parts = {}
  for i, name in ipairs(by) do
    local value = row[name]
    -- every digit: 0.1 and the number after it are two groups
    local text = type(value) == 'number' and ('%.17g'):format(value) or tostring(value)
    parts[i] = ('%s %d %s'):format(type(value), #text, text)
  end
  return table.concat(parts)
end

local function groups_of(rows, by)
  local groups, order = {}, {}
  for _, row in ipairs(rows) do
    local key = key_of(row, by)
    local group = groups[key]
    if not group then
      group = {}
      groups[key] = group
      order[#order + 1] = group
    end
    group[#group + 1] = row
  end
  return order
end

local function aggregate(column, group)
  local list = {}
  for _, row in ipairs(group) do
    local value = true
    if column.tree then value = expression.evaluate(column.tree, row) end
    if type(value) == 'number' and value == value then
      list[#list + 1] = value
    elseif value ~= nil and column.aggregate == AGGREGATES.count then
      list[#list + 1] = 1
    elseif type(value) == 'string' then
      blame.raise(('%s: %s is text; only count takes it'):format(column.title, blame.show(value)),
        'EARG')
    end
  end
  table.sort(list)
  return column.aggregate(list)
end

local function is_same(a, b) return a == b or a ~= a and b ~= b end

-- What all rows of a group have; a value that only one of them has would speak for the others.
local function shared(column, group)
  local value = expression.evaluate(column.tree, group[1])
  for i = 2, #group do
    if not is_same(value, expression.evaluate(column.tree, group[i])) then
      blame.raise(('%s has several values in a group: group by it, too, or take its median, max '
        .. '...'):format(column.title), 'EARG')
    end
  end
  return value
end

local function grouped(rows, columns, by)
  local out = {}
  for _, group in ipairs(groups_of(rows, by)) do
    local line = {}
    for i, column in ipairs(columns) do
      if column.aggregate then
        line[i] = aggregate(column, group)
      else
        line[i] = shared(column, group)
      end
    end
    out[#out + 1] = line
  end
  return out
end

local function plain(rows, columns)
  local out = {}
  for r, row in ipairs(rows) do
    local line = {}
    for i, column in ipairs(columns) do line[i] = expression.evaluate(column.tree, row) end
    out[r] = line
  end
  return out
end

-- -- Order -----------------------------------------------------------

local function before(a, b)
  if a == nil or b == nil then return a ~= nil end
  if type(a) ~= type(b) then return type(a) < type(b) end
  if type(a) == 'boolean' then return a and not b end
  return a < b
end

-- '2' or 'width' rising, '-2' or '-width' falling.
local function order(lines, columns, by)
  local place, falling = tonumber(by) and math.abs(tonumber(by)), by:sub(1, 1) == '-'
  if not place then
    local name = by:gsub('^%-', ''):gsub('%.', '_')
    for i, column in ipairs(columns) do
      if column.title:gsub('%.', '_') == name then place = i end
    end
  end
  if not place or not columns[place] then
    blame.raise(("--sort: there is no column '%s'"):format(by), 'EARG')
  end
  local at = {}
  for i, line in ipairs(lines) do at[line] = i end
  local function value(line) -- nan has no place in any order: as if it were absent
    local v = line[place]
    if v == v then return v end
  end
  table.sort(lines, function(a, b)
    local x, y = value(a), value(b)
    if x == y then return at[a] < at[b] end
    if x == nil or y == nil then return x ~= nil end -- what is absent comes last either way
    if falling then return before(y, x) end
    return before(x, y)
  end)
end

-- -- The question -----------------------------------------------------------

local function needed_of(columns, by, where, known, what)
  local needed, list = {}, {}
  local function need(name)
    if not needed[name] then
      needed[name] = true
      list[#list + 1] = name
    end
  end
  for _, column in ipairs(columns) do
    if column.tree then
      expression.check(column.tree, known, what)
      expression.names(column.tree, need)
    end
  end
  for _, name in ipairs(by) do
    expression.check({ kind = 'name', name = name }, known, what)
    need(name)
  end
  if where then expression.check(where, known, what) end
  return list
end

-- What is shown when nobody names columns: parameters, phases, metrics; not their small print.
local SMALL = { '_lo$', '_hi$', '_min$', '_p25$', '_p75$', '_p95$', '_p99$', '_max$', '_mean$',
  '_sd$', '_mad$', '_n$', '_grade$', '_flags$', '_first$', '_flops$', '_bytes$', '_quiet$',
  '_quiet_lo$', '_quiet_hi$', '_ratio$', '_ratio_lo$', '_ratio_hi$', '_passes$', '_procs$',
  '_between$', '_within$', '_between_minutes$', '_left_out$' }
local TIMES = set_of { '_lo', '_hi', '_min', '_p25', '_p75', '_p95', '_p99', '_max', '_mean', '_sd',
  '_mad', '_first', '_quiet', '_quiet_lo', '_quiet_hi', '_cold', '_cold_lo', '_cold_hi' }

-- origin: a set of columns that say where and when
local function usual(list, origin)
  local fixed, known, out = set_of(schema.FIXED), set_of(list), {}
  for name in pairs(origin) do fixed[name] = true end
  for _, name in ipairs(list) do
    local small = fixed[name]
    for _, pattern in ipairs(SMALL) do
      local at = not small and name:find(pattern)
      -- of a phase: a metric or parameter called k_max is nobody's small print
      local phase = at and name:sub(1, at - 1) -- or what is cold of one
      small = small or at and (known[phase .. '_p95'] or known[phase:gsub('_cold$', '') .. '_p95'])
    end
    if not small then out[#out + 1] = name end
  end
  out[#out + 1] = 'grade'
  return out
end

--- Is a name that of a time: of a phase, or of one of its quantiles?
---@param name string
---@param known table<string, boolean> the names that there are
---@return boolean
function M.is_time(name, known)
  if known[name .. '_p95'] then return true end
  for suffix in pairs(TIMES) do -- a phase may end like one: fwd_cold_lo is of fwd
    local phase = name:sub(-#suffix) == suffix and name:sub(1, -#suffix - 1)
    if phase and known[phase .. '_p95'] then return true end
  end
  return false
end

-- The same of a column; or is it an aggregate of such, but their number?
local function is_time(column, known)
  local name = column.tree and column.tree.kind == 'name' and column.tree.name
  return name and column.aggregate ~= AGGREGATES.count and M.is_time(name, known) or false
end

--- Ask a sweep.
-- >> query.ask(st, 'widths', { columns = 'width, median(fwd)', group = 'width', sort = '-2' })
---@param st table an open store
---@param name string the sweep, or several: 'mlp,mlp-2', 'mlp*'
---@param opt table columns (text: expressions by comma, `name := expression`), where (text), group
---  (names by comma), sort ('2', '-fwd'), limit, refuse (called with the store, the sweeps and
---  these options where several points become one number: raises where they should not)
---@return table found titles (list), units ('ns' where a column is a time), lines (list of lists;
---  what is absent is nil)
function M.ask(st, name, opt)
  local sweeps, origins = M.several(st, name), schema.views(st.db)
  local all, known, origin = {}, {}, {}
  for _, sweep in ipairs(sweeps) do
    local list = M.columns(st, sweep.name)
    sweep.known = set_of(list)
    for _, column in ipairs(list) do
      if not known[column] then all[#all + 1], known[column] = column, true end
    end
    for column in pairs(origins[sweep.name]) do origin[column] = true end
  end
  local columns, by, has_aggregate, is_number = {}, {}, false, false
  for i, text in ipairs(opt.columns and split(opt.columns) or usual(all, origin)) do
    columns[i] = column_of(text)
    for k = 1, i - 1 do
      if columns[k].title == columns[i].title then
        blame.raise(('two columns are called %s'):format(columns[i].title), 'EARG')
      end
    end
    has_aggregate = has_aggregate or columns[i].aggregate ~= nil
    is_number = is_number or columns[i].aggregate and columns[i].aggregate ~= AGGREGATES.count
  end
  for _, text in ipairs(opt.group and split(opt.group) or {}) do
    by[#by + 1] = (text:gsub('%.', '_'))
  end
  local where = opt.where and expression.parse(opt.where)
  if is_number and opt.refuse then opt.refuse(st, sweeps, opt) end
  local needed = needed_of(columns, by, where, known, #sweeps > 1 and 'the sweeps ' .. name
    or 'the sweep ' .. sweeps[1].name)
  check_kinds(st, sweeps, columns, where)
  -- nobody reads a million rows to see ten of them
  local first = not (opt.sort or has_aggregate or #by > 0) and opt.limit or nil
  local rows = fetch(st, sweeps[1], needed, where, first)
  for i = 2, #sweeps do
    for _, row in ipairs(fetch(st, sweeps[i], needed, where, first)) do rows[#rows + 1] = row end
  end
  local found = { titles = {}, units = {} }
  for i, column in ipairs(columns) do
    found.titles[i], found.units[i] = column.title, is_time(column, known) and 'ns' or nil
  end
  if has_aggregate or #by > 0 then
    found.lines = grouped(rows, columns, by)
  else
    found.lines = plain(rows, columns)
  end
  if opt.sort then order(found.lines, columns, opt.sort) end
  for i = #found.lines, (opt.limit or math.huge) + 1, -1 do found.lines[i] = nil end
  return found
end

--- Does a sweep's view have a column?
---@param st table
---@param sweep table
---@param name string
---@return boolean
function M.has(st, sweep, name)
  schema.views(st.db)
  return set_of(M.columns(st, sweep.name))[name] == true
end

--- Every column of every point.
---@param st table
---@param name string the sweep
---@return table found titles, units ('ns' where a column is a time), lines
function M.all(st, name)
  local sweep, columns = M.sweep(st, name), {}
  local origin = schema.views(st.db)[sweep.name]
  for _, column in ipairs(M.columns(st, sweep.name)) do
    if not origin[column] then columns[#columns + 1] = '"' .. column:gsub('"', '""') .. '"' end
  end
  local found = M.sql(st, ('/* all rows */ SELECT %s FROM "%s" ORDER BY trial'):format(
    table.concat(columns, ', '), (schema.view_of(st.db, sweep.name):gsub('"', '""'))))
  local known = set_of(found.titles)
  found.units = {}
  for i, title in ipairs(found.titles) do
    found.units[i] = M.is_time(title, known) and 'ns' or nil
  end
  return found
end

--- Any SELECT over the views, in a database that is open for reading only.
---@param st table
---@param sql string
---@return table found titles, lines
function M.sql(st, sql)
  schema.views(st.db)
  local rows, titles = st.db:ask(sql)
  local found = { titles = titles, lines = {} }
  for r, row in ipairs(rows) do
    local line = {}
    for i, title in ipairs(titles) do line[i] = row[title] end
    found.lines[r] = line
  end
  return found
end

return M
