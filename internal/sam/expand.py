"""expand.py TEMPLATE: the template after the SAM transform, as JSON. It needs aws-sam-translator, and neither network nor credentials."""
import json
import os
import sys

os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")  # the transform asks which, for the partition

from samtranslator.translator.transform import transform
from samtranslator.yaml_helper import yaml_parse

with open(sys.argv[1]) as file:
    template = yaml_parse(file.read())
for resource in template["Resources"].values():
    if resource["Type"] == "AWS::Serverless::Function":
        resource["Properties"]["CodeUri"] = "s3://bucket/code.zip"  # as sam package leaves it
json.dump(transform(template, {}, dict), sys.stdout, indent=1, default=str)
