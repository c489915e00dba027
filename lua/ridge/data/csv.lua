-- SPDX-License-Identifier: MIT
--- Numbers in lines of text, by comma or another sign (RFC 4180).

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local columns = require 'ridge.data.csv_columns'
local dtypes = require 'ridge.tensor.dtype'
local file = require 'ridge.data.file'
local options = require 'ridge.options'
local plain = require 'ridge.plain'

local M = {}

local SPEC = {
  separator = { 'string', default = ',', doc = 'one sign between two numbers' },
  header = { 'boolean', doc = 'the first line names the columns; found out when left out' },
  dtype = { 'string', doc = "of the tensor; else 'f32', if that holds all whole numbers" },
  missing = { 'number|list', nan = true,
    doc = 'what an empty field is, nan when left out; or texts that are missing' },
  columns = { 'list', doc = 'those that are taken, by name or number; all when left out' },
  fill = { 'string|number|table', names = { 'mean', 'median', 'mode' },
    doc = 'what is put where something is missing; or that by column' },
  categories = { 'list', doc = 'columns of texts, which become numbers from 0 in their order' },
  like = { 'table', doc = 'a preparation, or its state: the same columns, codes and fillings' },
}
local OPEN = 'a quote that is not closed'
local LONGEST = 2 ^ 20
local TOO_LONG = 'a field of more than a megabyte'

-- The field that begins at a place, and where the separator behind it stands; nil: it is the last.
-- Between quotes a separator is a sign like others, and two quotes are one.
local function field_at(line, from, separator)
  local text, last = {}, line:match('^%s*"()', from)
  while last do
    local quote = line:find('"', last, true)
    if not quote then return nil, nil, OPEN end
    text[#text + 1] = line:sub(last, quote - 1)
    last = line:sub(quote + 1, quote + 1) == '"' and quote + 2 or nil
    if last then
      text[#text + 1] = '"'
    else
      local rest, at = line:match('^%s*()', quote + 1), nil
      if rest <= #line and line:sub(rest, rest) == separator then at = rest end
      if not at and separator:find '%s' and line:sub(quote + 1, quote + 1) == separator then
        at = quote + 1
      end
      if not at and rest <= #line then return nil, nil, 'text behind a quoted field' end
      return table.concat(text), at
    end
  end
  local at = line:find(separator, from, true)
  if (at or #line + 1) - from > LONGEST then return nil, nil, TOO_LONG end
  return line:sub(from, at and at - 1 or #line):match '^%s*(.-)%s*$', at
end

-- The fields of a line; nil and what is wrong with it.
local function fields_of(line, separator)
  local list, from = {}, 1
  repeat
    if #list % 1024 == 0 then call.look 'data.csv' end
    local field, at, wrong = field_at(line, from, separator)
    if not field then return nil, wrong end
    list[#list + 1], from = field, at and at + 1
  until not from
  return list
end

local function is_odd(line)
  local _, n = line:gsub('"', '')
  return n % 2 == 1
end

-- The fields of the lines that belong to a line whose quote is open, and how many lines came.
local function fields_over(line, next_line, separator)
  local lines, odd = { line }, is_odd(line)
  for more in next_line do
    call.look 'data.csv'
    lines[#lines + 1] = more
    odd = odd ~= is_odd(more)
    if not odd then -- where quotes are in pairs it may be closed
      local fields, wrong = fields_of(table.concat(lines, '\n'), separator)
      if wrong ~= OPEN then return fields, wrong, #lines - 1 end
    end
  end
  return nil, OPEN
end

-- Names and numbers beside each other are a header ('label,0,1') or a row with a word in it
-- ('3,NA'): taking the one for the other loses a row, or makes one of names.
local function is_header(fields, path, number)
  local words, numbers = 0, 0
  for _, field in ipairs(fields) do
    if tonumber(field) then
      numbers = numbers + 1
    elseif field ~= '' then
      words = words + 1
    end
  end
  if words > 0 and numbers > 0 then
    blame.raise(('data.csv: %s line %d has words and numbers; header = true or false says what it '
      .. 'is'):format(path, number), 'EFORMAT')
  end
  return words > 0
end

local function is_names(opts, fields, path, number)
  if opts.header ~= nil then return opts.header end
  return is_header(fields, path, number)
end

-- Whole numbers ------------------------------------------------------------------------------

local EXACT = 2 ^ 53
local RANGE = { bool = { 0, 1 }, u8 = { 0, 255 }, i8 = { -128, 127 },
  i32 = { -2 ^ 31, 2 ^ 31 - 1 }, i64 = { -EXACT, EXACT } }
local LARGEST = { [''] = '9223372036854775807', ['-'] = '9223372036854775808' }

-- Digits as i64; nil: they are none, or too many.
local function long_of(field)
  local sign, digits = field:match '^%+?(%-?)0*(%d*)$'
  local most = digits and LARGEST[sign]
  if not most or not field:find '%d' or #digits > #most or (#digits == #most and digits > most) then
    return nil
  end
  local value = 0LL
  for digit in digits:gmatch '%d' do value = value * 10 + tonumber(digit) end
  return sign == '-' and -value or value
end

-- Does f32 hold a whole number with all its digits?
local single = ffi.new 'float[1]'
local function is_held(field, value)
  local sign, digits = field:match '^%+?(%-?)0*(%d+)$'
  single[0] = value
  -- an infinity is only what was written as one
  if math.abs(tonumber(single[0])) == math.huge then return not field:find '%d' end
  if not digits or value == 0 then return true end
  return single[0] == value and ('%.0f'):format(value) == sign .. digits
end

-- A field as the number of a type, and what is wrong with it there.
local function value_of(field, dtype, missing)
  if field == '' and type(missing) == 'table' then
    return nil, "an empty field is not among the texts of missing: '' is one"
  elseif field == '' and not missing and RANGE[dtype] then
    return nil, ('an empty field is nan, which %s has not: missing or fill says what it becomes')
      :format(dtype)
  end
  local value = field == '' and (missing or 0 / 0) or tonumber(field)
  if not value then
    return nil, blame.show(field) .. ' is no number'
  elseif dtype == nil then
    if is_held(field, value) then return value end
    if math.abs(value) == math.huge then return nil, field .. ' is more than any type holds' end
    if not field:find '^[+-]?%d+$' then
      return nil, field .. " is more than f32 holds: dtype = 'f64' keeps it"
    end
    return nil, field .. " has more digits than f32 holds: dtype = 'i64' keeps them, 'f32' rounds"
  end
  local range, whole = RANGE[dtype], dtype == 'i64' and long_of(field)
  if whole then return whole end
  if not range or (value == math.floor(value) and value >= range[1] and value <= range[2]) then
    return value
  end
  return nil, ('%s is no %s'):format(field == '' and tostring(value) or field, dtype)
end

-- What separates the fields, where another sign than was said does.
local function separator_hint(field, separator)
  local other = not tonumber(field) and field:match '^[%d.,+-]*%s*([;|\t])%s*[%d.,+-]*'
  if not other or other == separator then return '' end
  return (" (separator = '%s'?)"):format(other == '\t' and '\\t' or other)
end

local function number_of(field, opts, path, line, column)
  local value, wrong = value_of(field, opts.dtype, opts.missing)
  if value then return value end
  wrong = wrong .. separator_hint(field, opts.separator)
  blame.raise(('data.csv: %s line %d, column %d: %s'):format(path, line, column, wrong),
    'EFORMAT')
end

local function say_nul(path, line, fields, what)
  for i, field in ipairs(fields) do
    if field:find('%z') then
      blame.raise(('%s: %s line %d, column %d: a byte 0, which no text has: is it UTF-16?')
        :format(what, path, line, i), 'EFORMAT')
    end
  end
end

--- The numbers of one line.
---@param line string
---@param path string for errors, with the line's number
---@param number number
---@param separator string
---@param what string the function the user called
---@param dtype string|nil the type they will have; nil: f32, where that holds them
---@return number[]
function M.row(line, path, number, separator, what, dtype)
  local fields, wrong = fields_of(line, separator)
  if not fields then
    blame.raise(('%s: %s line %d has %s'):format(what, path, number, wrong), 'EFORMAT')
  end
  if line:find '%z' then say_nul(path, number, fields, what) end
  for i, field in ipairs(fields) do
    local value, why
    if field == '' then
      why = 'an empty field is no number'
    else
      value, why = value_of(field, dtype)
    end
    if type(value) == 'cdata' then -- a list has Lua's numbers
      local held = tonumber(value)
      if ffi.cast('int64_t', held) ~= value then
        why = field .. ' has more digits than a stream keeps'
      end
      value = held
    end
    if why then
      blame.raise(('%s: %s line %d, column %d: %s'):format(what, path, number, i, why
        .. separator_hint(field, separator)), 'EFORMAT')
    end
    fields[i] = value
  end
  return fields
end

-- A field of a column, and is something missing there?
local function taken_of(column, field, plan, opts, path, line)
  if plan.missing[field] then
    if not column.fixed and column.fill == nil and RANGE[opts.dtype] then
      blame.raise(('data.csv: %s line %d, column %d: %s is missing, which %s has no nan for: fill '
        .. 'says what it becomes'):format(path, line, column.at, blame.show(field), opts.dtype),
        'EFORMAT')
    end
    return RANGE[opts.dtype] and 0 or 0 / 0, true
  end
  if not column.code then return number_of(field, opts, path, line, column.at) end
  local code = columns.code(column, field)
  if not code then
    blame.raise(('data.csv: %s line %d, column %d: %s is no category of %s'):format(path, line,
      column.at, blame.show(field), column.name), 'EFORMAT')
  end
  return code
end

local PREPARES = { 'columns', 'fill', 'categories', 'like' }

-- Is anything asked of the columns?
local function prepares(opts)
  for _, name in ipairs(PREPARES) do
    if opts[name] ~= nil then return true end
  end
  return type(opts.missing) == 'table'
end

-- May a tensor of a type have this value?
local function fitting(dtype)
  local range = RANGE[dtype]
  return function(v)
    return not range or v == math.floor(v) and v >= range[1] and v <= range[2]
  end
end

-- Without quotes a carriage return is no part of a field: lines that end in it alone, or twice.
local function say_return(path, number)
  blame.raise(('data.csv: %s line %d has a carriage return in it: lines end in \\n or \\r\\n')
    :format(path, number), 'EFORMAT')
end

-- Which numbers are taken without a look at their field, which is a string of Lua's: what they may
-- be, and a row of them; nil where columns are texts, or numbers stand for what is missing. Lines
-- that hold anything else are looked at field by field, and what is wrong is said there.
local function at_once(plan, opts, n_columns)
  for text in pairs(plan.missing) do
    if tonumber(text) then return nil end
  end
  for _, column in ipairs(plan) do
    if column.code then return nil end
  end
  local range, inf = RANGE[opts.dtype], math.huge
  local held = opts.dtype == nil
  return { row = ffi.new('double[?]', n_columns),
    how = ffi.new('rg_decimal', { least = range and range[1] or -inf,
      greatest = range and range[2] or inf, largest_whole = held and 2 ^ 24 or inf,
      largest = held and 3.4e38 or inf, whole = range and 1 or 0,
      separator = opts.separator:byte() }) }
end

-- Numbers that do not fit are refused before the kernel ends the process for them: the size of a
-- file that is not packed says how many are to come. They lie here as f64 or i64, and once more in
-- the tensor's type.
local function say_memory(f, path, numbers, wide, dtype)
  local each = wide == (dtype or 'f32') and 8 or 8 + dtypes.bytes[dtype or 'f32']
  local all = numbers.n * f.size / f.at
  local left = tonumber(C.rg_memory_left())
  if all * each - numbers.n * 8 > left then
    blame.raise(('data.csv: %s has about %.2g numbers, which take %.1f GB while they are read; '
      .. '%.1f GB are left. columns takes some of them, ridge.data.stream a batch at a time')
      :format(path, all, all * each / 1e9, left / 1e9), 'ENOMEM')
  end
end

local ASKED = 2 ^ 22 -- numbers behind which that is asked, and behind twice as many, and so on

-- What the lines of an open file hold.
local function parse(f, path, opts)
  local names, n_columns, plan, number, over = nil, nil, nil, 0, 0
  local wide = opts.dtype == 'i64' and 'i64' or 'f64'
  local numbers, rows = columns.Numbers(wide == 'i64' and 'int64_t' or 'double'), 0
  local next_line, plain_row, ask = f:lines(), nil, ASKED
  for line in next_line do
    number, over = number + 1 + over, 0
    call.look 'data.csv'
    if plain_row and C.rg_decimals(line, #line, plain_row.how, plain_row.row, n_columns)
        == n_columns then
      numbers:row(plain_row.row, plan)
      rows = rows + 1
    elseif line:find '%S' then
      local fields, wrong = fields_of(line, opts.separator)
      if wrong == OPEN then fields, wrong, over = fields_over(line, next_line, opts.separator) end
      if not fields then
        blame.raise(('data.csv: %s line %d has %s'):format(path, number, wrong), 'EFORMAT')
      end
      if line:find '%z' then say_nul(path, number, fields, 'data.csv') end
      if line:find('\r', 1, true) and not line:find('"', 1, true) then say_return(path, number) end
      n_columns = n_columns or #fields
      if #fields ~= n_columns then
        blame.raise(('data.csv: %s line %d has %s, the first has %d'):format(path, number,
          plain.count(#fields, 'field'), n_columns), 'EFORMAT')
      end
      if rows == 0 and not names and is_names(opts, fields, path, number) then
        names = fields
      else
        if not plan then
          plan = columns.plan(opts, names, n_columns, path)
          plain_row = at_once(plan, opts, n_columns)
        end
        for _, column in ipairs(plan) do
          local v, misses = taken_of(column, fields[column.at], plan, opts, path, number)
          numbers:add(v)
          if misses then column.missed[#column.missed + 1] = rows end
        end
        rows = rows + 1
      end
    end
    if numbers.n >= ask and f.size then
      ask = ask * 2
      say_memory(f, path, numbers, wide, opts.dtype)
    end
  end
  if rows == 0 then blame.raise(('data.csv: %s has no numbers'):format(path), 'EFORMAT') end
  local prepared = columns.finish(plan, numbers, rows, path, fitting(opts.dtype))
  if names then
    for k, column in ipairs(plan) do names[k] = column.name end
    for k = #plan + 1, n_columns do names[k] = nil end
  end
  local x = numbers:tensor(rows, #plan, wide)
  return opts.dtype == wide and x or x:to(opts.dtype or 'f32'), names,
    prepares(opts) and prepared or nil
end

-- Named columns have a header, whatever their fields look like.
local function names_columns(opts)
  for _, key in ipairs { 'columns', 'categories' } do
    for _, which in ipairs(opts[key] or {}) do
      if type(which) == 'string' then return true end
    end
  end
  for which in pairs(type(opts.fill) == 'table' and opts.fill or {}) do
    if type(which) == 'string' then return true end
  end
  for _, name in ipairs(opts.like and opts.like.names or {}) do
    if type(name) == 'string' then return true end
  end
  return false
end

-- What is named by the keys of a table, or stands behind a hole, would be left out.
local function check_lists(opts)
  for _, name in ipairs { 'columns', 'categories', 'missing' } do
    if type(opts[name]) == 'table' then
      options.list(opts[name], 'data.csv', name == 'missing' and 'texts' or 'columns')
    end
  end
  if opts.columns and #opts.columns == 0 then blame.raise('data.csv: columns lists none') end
end

local function check_like(opts)
  local like = opts.like
  if not like then return end
  if not columns.is_preparation(like) then
    blame.raise('data.csv: like is what ridge.data.csv gave as a preparation, or its state')
  end
  for _, name in ipairs { 'columns', 'fill', 'categories', 'missing' } do
    if opts[name] ~= nil then
      blame.raise(('data.csv: like says already what %s says'):format(name))
    end
  end
end

--- The numbers of a CSV file as a matrix; plain or packed by gzip. Whole numbers come with all of
--- their digits in 'i64' ('f64' and 'f32' round, where they are asked for), and what a whole type
--- cannot hold is an error.
---
--- `columns` takes some of them, in its order. Texts of the columns in `categories` become their
--- numbers from 0, in the order of the texts. An empty field is nan, or the number that `missing`
--- is; a list of texts there says what is missing: nan, or what `fill` says: 'mean' or 'median' of
--- the column, 'mode' (the most frequent value), a number, or one of those by column. In columns of
--- categories that is the most frequent one, whatever `fill` says. What was decided so is the third
--- result: it prints, `prepared.categories.city` are the texts, `like = prepared` treats another
--- file alike, and ridge.data.Loader(list, {prepared = prepared}) puts it into checkpoints.
---@param path string
---@param opts table|nil {separator = ',', header =, dtype = 'f32', missing =, columns =, fill =,
---  categories =, like =}
---@return Tensor x [lines x columns]
---@return table|nil names of the columns
---@return table|nil prepared names, categories, filled; where columns are prepared
-- >> x, names, prepared = ridge.data.csv('people.csv', {missing = {''}, fill = 'mean',
-- >>   categories = {'city'}})
function M.read(path, opts)
  opts = options.check(SPEC, opts, 'data.csv')
  if not opts.separator:find '^[^"\r\n%d]$' then
    blame.raise('data.csv: the separator is one sign, no digit, quote or end of a line')
  end
  if opts.dtype then dtypes.code(opts.dtype, 'data.csv') end
  check_lists(opts)
  check_like(opts)
  if type(opts.missing) == 'number' and opts.fill ~= nil then
    blame.raise('data.csv: missing is a number, and fill says another: missing lists the texts '
      .. "that are missing, {''} where it is left out")
  end
  if opts.header == nil and names_columns(opts) then opts.header = true end
  return file.with(path, 'data.csv', function(f) return parse(f, path, opts) end)
end

return M
