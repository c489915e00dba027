-- SPDX-License-Identifier: MIT
--- What the commands that read a results database share: options, opening, printing, failing.

local args = require 'ridge.cli.args'
local blame = require 'ridge.blame'
local plain = require 'ridge.plain'

local M = {}

--- The options every one of them has.
M.DB = { 'db', '', 'database file; RIDGE_DB or results/ridge.db when left out' }
M.AS = { 'as', 'table', 'what is printed', choices = { 'table', 'csv', 'json', 'jsonl', 'md' } }

--- What is done with a mistake instead of printing it (ridge.cli.call raises it); nil: printed.
M.fails = nil

-- A message without the function that it is of, bench.batch_size: of batch-size, which is said;
-- what ends like the command is a file otherwise: net.onnx, results.db.
local function without_function(name, message)
  local own = name:gsub('%-', '_')
  local space, rest = message:match('^([%w_]+)%.' .. own .. ': (.*)$')
  local known, f = pcall(function() return require 'ridge'[space][own] end)
  return known and f ~= nil and rest or message
end

--- Say what is wrong on standard error.
---@param name string the command
---@param message string
---@return integer status 1
function M.fail(name, message)
  message = message:gsub('^' .. name:gsub('%-', '%%-') .. '%f[.:][%w_.]*: ', '') -- said below
  message = without_function(name, message)
  if M.fails then return M.fails(name, message) end
  plain.note(('ridge %s: %s\ntry: ridge %s --help\n'):format(name, message, name))
  return 1
end

local function message_of(err)
  return type(err) == 'table' and err.message or tostring(err)
end

--- Read the options and call a function with the open database; close it whatever happens.
---@param name string the command
---@param spec table options
---@param argv string[]
---@param mode string|nil 'read', 'write', or nil: the function opens what it needs
---@param fn function fn(opt, rest, store, said) returns the status, 0 when it returns nothing;
---  said: a set of the options that stood there
---@return integer status
function M.run(name, spec, argv, mode, fn)
  local opt, rest, said = args.read(spec, argv)
  if not opt and rest == 'help' then
    plain.print(args.help(spec, name), '\n')
    return 0
  elseif not opt then
    return M.fail(name, rest)
  end
  local st
  local ok, result = pcall(function()
    local store = require 'ridge.store'
    if mode then st = store.open(opt.db ~= '' and opt.db or store.default_path(), mode) end
    return fn(opt, rest, st, said) or 0
  end)
  if st then st:close() end
  if ok then return result end
  if type(result) == 'table' and result.code == 'EINTR' then error(result, 0) end
  return M.fail(name, message_of(result))
end

--- The number of a trial that a command is given; nil and what to say of another word.
---@param word string|nil as typed
---@return integer|nil id
---@return string|nil reason
function M.trial(word)
  local id = word and word:find '^%d+$' and tonumber(word)
  if id and id < 2 ^ 53 then return id end
  return nil, word and ("'%s' is no number of a trial"):format(word)
    or 'the number of a trial is missing'
end

--- Save a figure where -o says, and print its path; to standard output where that is -.
---@param figure table
---@param path string
---@param opt table as figure:save has it
function M.picture(figure, path, opt)
  if path ~= '-' then
    figure:save(path, opt)
    plain.print(path, '\n')
  elseif require('ridge.host').is_terminal(1) then
    blame.raise('-o -: a picture is for a file or a program, not for a terminal (--inline)', 'EARG')
  else
    io.stdout:write(figure:png(opt))
  end
end

--- Print rows, or write them to a file.
---@param found table titles, lines or each, as ridge.store.format has it
---@param opt table as, and o: a file; - is standard output
function M.show(found, opt)
  local format = require 'ridge.store.format'
  if opt.o and opt.o ~= '' and opt.o ~= '-' then
    require('ridge.ffi.output').write(opt.o, 'export', function(output)
      format.write(found, opt.as, function(text) output:write(text) end)
    end)
  else
    -- a table is for eyes; what goes on to a program keeps every byte
    local shown = opt.as == 'table' or opt.as == 'md' or require('ridge.host').is_terminal(1)
    format.write(found, opt.as, function(text)
      io.stdout:write(shown and plain.text(text) or text)
    end)
  end
end

return M
