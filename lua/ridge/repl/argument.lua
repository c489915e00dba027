-- SPDX-License-Identifier: MIT
--- What the call around the cursor takes there: keys of its options table, the words that an option
--- or an argument may be.
--
-- The spec that a function checks its options against (ridge.options) is an upvalue of it, and the
-- words of an argument are those its docstring quotes: nothing is written down twice.

local environment = require 'ridge.repl.environment'
local guard = require 'ridge.guard'
local help = require 'ridge.repl.help'
local lexer = require 'ridge.repl.lexer'
local types = require 'ridge.types'

local M = {}

local OPENS = { ['('] = true, ['{'] = true, ['['] = true }
local CLOSES = { [')'] = true, ['}'] = true, [']'] = true }

-- -- Where the cursor stands ------------------------------------------------------------------

--- The dotted name that ends at a token, as a list; whether the last mark is a colon.
local function chain_at(words, i)
  local chain, method = {}, false
  if not words[i] or words[i].kind ~= 'name' then return nil end
  chain[1] = words[i].text
  while words[i - 1] and (words[i - 1].text == '.' or words[i - 1].text == ':')
    and words[i - 2] and words[i - 2].kind == 'name' do
    if #chain == 1 then method = words[i - 1].text == ':' end
    table.insert(chain, 1, words[i - 2].text)
    i = i - 2
  end
  return chain, method
end

--- The brackets that are open at the end of some tokens, the innermost last: where they are, and
--- where what stands behind the last comma inside them begins.
local function open_brackets(words, n)
  local stack = {}
  for i = 1, n do
    local token = words[i]
    if token.kind == 'op' then
      if OPENS[token.text] then
        stack[#stack + 1] = { text = token.text, at = i, from = i + 1, commas = 0 }
      elseif CLOSES[token.text] then
        stack[#stack] = nil
      elseif #stack > 0 and (token.text == ',' or token.text == ';') then
        local top = stack[#stack]
        top.commas, top.from = top.commas + 1, i + 1
      end
    end
  end
  return stack
end

--- The keys that stand in the braces already.
local function keys_inside(words, n, brace)
  local keys, depth = {}, 0
  for i = brace.at + 1, n do
    local token = words[i]
    if token.kind == 'op' and OPENS[token.text] then depth = depth + 1 end
    if token.kind == 'op' and CLOSES[token.text] then depth = depth - 1 end
    if depth == 0 and token.kind == 'name' and words[i + 1] and words[i + 1].text == '=' then
      keys[token.text] = true
    end
  end
  return keys
end

---@class ridge.repl.CallSite
---@field chain string[] the name of what is called: {'ridge', 'nn', 'Linear'}
---@field method boolean called with a colon
---@field argument integer which argument the cursor is in
---@field key string|nil the option whose value is written
---@field wants_key boolean the name of an option may be written
---@field given table<string, boolean> options that stand there already
---@field quote string|nil the quote of the string the cursor is in
---@field prefix string what is written so far

--- The call around the cursor; nil if there is none.
---@param before string the text before the cursor
---@return ridge.repl.CallSite|nil site
function M.site(before)
  local tokens, open = lexer.tokens(before)
  if open == 'comment' then return nil end
  local words = lexer.words(before)
  local n, site = #words, { prefix = '', given = {}, wants_key = false, argument = 1 }
  if n == 0 then return nil end
  if open == 'string' then
    site.quote = words[n].text:match '^["\']'
    if not site.quote then return nil end
    site.prefix = words[n].text:sub(2)
    n = n - 1
    if words[n] and words[n].kind == 'name' then -- f 'text'
      site.chain, site.method = chain_at(words, n)
      return site
    end
  elseif words[n].kind == 'name' and tokens[#tokens].kind ~= 'space' then
    site.prefix = words[n].text
    n = n - 1
  end
  local stack = open_brackets(words, n)
  local top = stack[#stack]
  if not top or top.text == '[' then return nil end
  local call = top
  if top.text == '{' then
    site.given = keys_inside(words, n, top)
    if words[n].text == '=' and n - 1 == top.from and words[n - 1].kind == 'name' then
      site.key = words[n - 1].text
      site.given[site.key] = nil
    end
    site.wants_key = n < top.from
    call = stack[#stack - 1]
    local behind = words[top.at - 1]
    if behind and behind.kind == 'name' then -- f{...
      site.chain, site.method = chain_at(words, top.at - 1)
      return site
    end
    if not call or call.text ~= '(' then return nil end
  end
  site.argument = call.commas + 1
  site.chain, site.method = chain_at(words, call.at - 1)
  return site.chain and site or nil
end

-- -- What is expected there ---------------------------------------------------------------------

--- A member of a value, without calling anybody's code but ridge's own.
local function member(value, name)
  if types.of(value) and type(value) ~= 'table' then
    local ok, found = pcall(function() return value[name] end)
    return ok and found or nil
  end
  return type(value) == 'table' and help.member(value, name) or nil
end

--- The function that a call would run; of a class, what makes its objects.
local function callee(site, env)
  local value = environment.lookup(env, site.chain[1])
  for i = 2, #site.chain do
    if value == nil then return nil end
    value = member(value, site.chain[i])
  end
  if type(value) == 'table' then value = help.member(value, 'init') end
  return type(value) == 'function' and value or nil
end

local function is_spec(value)
  if type(value) ~= 'table' or next(value) == nil or debug.getmetatable(value) then return false end
  for name, rule in next, value do
    if type(name) ~= 'string' or type(rule) ~= 'table' or type(rawget(rule, 1)) ~= 'string' then
      return false
    end
  end
  return true
end

--- The options that a function takes; nil if it takes none.
---@param f function
---@return table|nil spec as ridge.options takes it
function M.spec_of(f)
  f = guard.original(f)
  for i = 1, 60 do
    local name, value = debug.getupvalue(f, i)
    if not name then return nil end
    if is_spec(value) then return value end
  end
  return nil
end

local function shown(value)
  return type(value) == 'string' and "'" .. value .. "'" or tostring(value)
end

local function hint_of(rule)
  local parts = { rule.doc }
  if rule.choices then
    local list = {}
    for i, choice in ipairs(rule.choices) do list[i] = tostring(choice) end
    parts[#parts + 1] = table.concat(list, ' | ')
  end
  if rule.default ~= nil then
    parts[#parts + 1] = 'default ' .. shown(rule.default)
  elseif rule.required then
    parts[#parts + 1] = 'required'
  end
  return table.concat(parts, ', ')
end

--- The options that may be written next, each with what it is.
---@param site ridge.repl.CallSite
---@param env table the session's environment
---@return {name: string, suffix: string, hint: string}[] options unsorted
function M.options(site, env)
  local f = site.wants_key and callee(site, env)
  local list = {}
  for name, rule in pairs(f and M.spec_of(f) or {}) do
    if not site.given[name] then
      list[#list + 1] = { name = name, suffix = ' = ', hint = hint_of(rule) }
    end
  end
  return list
end

local function quoted_in(text, list)
  for word in text:gmatch "'([^'%s]+)'" do list[#list + 1] = { name = word } end
end

--- The words that the string under the cursor may be.
---@param site ridge.repl.CallSite
---@param env table the session's environment
---@return {name: string}[] words unsorted
function M.words(site, env)
  local f, list = site.quote and callee(site, env), {}
  if not f then return list end
  local spec = site.key and M.spec_of(f)
  if spec then
    local rule = spec[site.key]
    for _, word in ipairs(rule and (rule.choices or rule.names) or {}) do
      list[#list + 1] = { name = tostring(word) }
    end
    return list
  end
  local entry = help.entry_of(f)
  if not entry then return list end
  -- methods of tensors are functions whose first parameter is the tensor
  local shift = site.method and (entry.of_tensor or not entry.method) and 1 or 0
  local parameter = entry.params[site.argument + shift]
  if parameter then quoted_in(parameter.type .. ' ' .. parameter.text, list) end
  return list
end

return M
