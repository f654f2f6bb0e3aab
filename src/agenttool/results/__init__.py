"""Results: conversion, mapping, redaction, previews and persistence of what tools return."""
