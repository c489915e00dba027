-- SPDX-License-Identifier: MIT
--- Options tables of operations, made from their records: what may be given (a spec of
--- ridge.options), and how it comes into the struct that C reads.

local blame = require 'ridge.blame'
local dtype = require 'ridge.tensor.dtype'
local schema = require 'ridge.tensor.schema'

local M = {}

-- What an option is checked against, by the kind of its argument.
local RULES = {
  number = { 'number' },
  whole = { 'integer' },
  share = { 'number', min = 0, max = 0.999999999 },
  part = { 'number', min = 0, max = 1 },
  from0 = { 'number', min = 0, max = 1e300 },
  flag = { 'boolean' },
  dtype = { 'string', names = dtype.names },
}
for kind, words in pairs(schema.WORDS) do
  local choices = {}
  for code, word in pairs(words) do choices[code + 1] = word end
  RULES[kind] = { 'string', choices = choices }
end

local CODES = {} -- by kind, then word
for kind, words in pairs(schema.WORDS) do
  CODES[kind] = {}
  for code, word in pairs(words) do CODES[kind][word] = code end
end

local function whole(value, least)
  return type(value) == 'number' and value == math.floor(value) and value >= least
    and value < 2 ^ 31
end

--- A size over rows and one over columns, from one number or two.
---@param value number|table
---@param what string the function asking, for errors
---@param name string the option
---@param least number
---@return number rows
---@return number columns
function M.pair(value, what, name, least)
  local rows, columns = value, value
  if type(value) == 'table' and #value == 2 then rows, columns = value[1], value[2] end
  if not whole(rows, least) or not whole(columns, least) then
    blame.raise(('%s: %s is %s; expected a whole number from %d, or {rows, columns}'):format(what,
      name, blame.show(value), least), 'EARG', what)
  end
  return rows, columns
end

local function rule_of(arg, more)
  local rule = { doc = arg.doc, default = schema.default(arg) }
  for key, value in pairs(RULES[arg.kind]) do rule[key] = value end
  if arg.type == 'i64x2' then rule[1] = 'number|table' end
  for key, value in pairs(more or {}) do rule[key] = value end
  if rule.default == 'none given' then rule.default = nil end
  return rule
end

-- What C is given for an option's value.
local function code_of(arg, value, what)
  if arg.kind == 'flag' then return value and 1 or 0 end
  if arg.kind == 'dtype' then return dtype.code(value, what) end
  return CODES[arg.kind] and CODES[arg.kind][value] or value
end

---@class ridge.tensor.Settings
---@field spec table options as ridge.options checks them
---@field write fun(struct: any, opts: table, what: string): any fills the fields of C's struct

--- The options of a record.
---@param record ridge.tensor.Record
---@param how table|nil as {argument = name or false}: an option of another name, or none, and
---  rules {option = {...}}: what is to be said of an option that the record does not say; its
---  default 'none given' takes that of the record away
---@return ridge.tensor.Settings
function M.of(record, how)
  local as, rules = how and how.as or {}, how and how.rules or {}
  local spec, list = {}, {}
  for _, arg in ipairs(schema.named(record)) do
    local name = as[arg.name] == nil and arg.name or as[arg.name]
    if name then
      spec[name] = rule_of(arg, rules[name])
      list[#list + 1] = { arg = arg, name = name }
    end
  end
  for name, rule in pairs(rules) do spec[name] = spec[name] or rule end
  local function write(struct, opts, what)
    for i = 1, #list do
      local arg, name = list[i].arg, list[i].name
      local value = opts[name]
      if value ~= nil and arg.type == 'i64x2' then
        local at = struct[arg.name]
        at[0], at[1] = M.pair(value, what, name, 1)
      elseif value ~= nil then
        struct[arg.name] = code_of(arg, value, what)
      end
    end
    return struct
  end
  return { spec = spec, write = write }
end

return M
